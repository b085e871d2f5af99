// What the daemon and its helpers in node/peer share: the parts of a running peer, and its stage of life. The
// daemon's thread owns them; the builder and the disk read what does not change any more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <asio/io_context.hpp>

#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/peer.h"
#include "node/exchange/exchanger.h"
#include "node/front/event_log.h"
#include "node/keep/checkpointer.h"
#include "node/launch/process.h"
#include "node/peer/options.h"
#include "node/trainers/outside_trainer.h"
#include "node/work/background.h"
#include "node/work/replica.h"
#include "node/work/trainer.h"
#include "training/exchange/mixer.h"
#include "transport/identity.h"
#include "transport/link_table.h"

namespace starling::node {

// A life advances in this order only.
enum class PeerLife : std::uint8_t {
  starting,  // until training or serving begins
  training,
  serving,   // a parameter server: makes no steps
  settling,  // the run's last step is done
  leaving,   // a signal or a command ended it; the core announces that
  ending,    // the core has finished, or there was none: files are written, links are flushed
};

struct PeerParts {
  const PeerOptions& options;
  asio::io_context& io;
  Process& process;
  Background& builder;  // loads the data, builds the replica, analyzes the topology
  Background& disk;     // writes files, evaluates the final replica
  const std::function<void(gossip::Event)> drive;  // passes the core an event

  const std::chrono::steady_clock::time_point origin = std::chrono::steady_clock::now();
  PeerLife life = PeerLife::starting;
  std::optional<gossip::Finish::How> finish{};
  bool restart_may_help = false;  // a failure from now on has exit code 1, as another start may succeed

  wire::Hello self{};
  std::shared_ptr<const transport::Ed25519Identity> identity{};  // from Connections::listen() on
  std::optional<Address> http{};                                 // where the front listens
  training::Experiment experiment = options.experiment;          // the run's; a joiner's own until Prepare
  std::optional<wire::Manifest> manifest{};                      // the run's, from Prepare on
  std::optional<Resumption> resumed{};
  EventLog events{};

  std::unique_ptr<Attachment> attachment{};  // with --trainer
  std::unique_ptr<Replica> replica{};
  std::unique_ptr<training::Mixer> mixer{};
  std::unique_ptr<transport::LinkTable> links{};
  std::unique_ptr<Exchanger> exchanger{};
  std::unique_ptr<Trainer> trainer{};
  OutsideTrainer* outside = nullptr;  // `trainer` with --trainer
  std::optional<gossip::Peer> core{};

  Instant now() const {
    return Instant{std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - origin)};
  }
  void advance(PeerLife to) {
    if (to > life) life = to;
  }
  bool is_running() const { return core && !core->view().over; }
  wire::Phase phase() const { return core->view().membership.self().phase; }  // REQUIRES: core

  // Samples of this life: the trainer also counts those of earlier ones.
  std::uint64_t of_this_life(std::uint64_t samples) const {
    return samples - std::min(samples, resumed ? resumed->earlier.samples : 0);
  }
  // Samples that the swarm counts for this peer's id. REQUIRES: core
  std::uint64_t of_this_id(std::uint64_t samples) const {
    return core->view().samples_before + of_this_life(samples);
  }
  // Samples of all peers that ever took part, without those of this id.
  std::uint64_t others_samples() const {
    const auto view = core->view();
    return view.swarm_samples - view.membership.self().samples;
  }
  // The seed of the order of the data, for a peer without a slot.
  std::uint64_t own_order() const { return resumed ? resumed->order : self.id.value; }
};

}  // namespace starling::node
