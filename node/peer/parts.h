// The parts of a running peer that the daemon and its helpers share, and the peer's stage of life. The
// daemon's thread owns it; the builder and the disk read what no longer changes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/peer.h"
#include "node/exchange/exchanger.h"
#include "node/front/event_log.h"
#include "node/keep/checkpointer.h"
#include "node/peer/options.h"
#include "node/work/replica.h"
#include "node/work/trainer.h"
#include "training/exchange/mixer.h"
#include "transport/link_table.h"

namespace starling::node {

// In order; a life only advances.
enum class PeerLife : std::uint8_t {
  starting,  // until training or serving begins
  training,
  serving,   // other peers' steps; it makes none
  settling,  // the run's last step is made
  leaving,   // asked to leave; the core says goodbye
  ending,    // the core has finished, or there was none: files are written, links are flushed
};

struct PeerParts {
  explicit PeerParts(const PeerOptions& o) : options(o), experiment(o.experiment) {}

  const PeerOptions& options;
  const std::chrono::steady_clock::time_point origin = std::chrono::steady_clock::now();
  PeerLife life = PeerLife::starting;
  std::optional<gossip::Finish::How> finish;

  wire::Hello self;
  training::Experiment experiment;         // the run's; a joiner's own until Prepare
  std::optional<wire::Manifest> manifest;  // the run's, from Prepare on
  std::optional<Resumption> resumed;
  EventLog events;

  std::unique_ptr<Replica> replica;
  std::unique_ptr<training::Mixer> mixer;
  std::unique_ptr<transport::LinkTable> links;
  std::unique_ptr<Exchanger> exchanger;
  std::unique_ptr<Trainer> trainer;
  std::optional<gossip::Peer> core;

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
  // Samples of all that ever took part, except for this life.
  std::uint64_t others_samples() const {
    const auto view = core->view();
    return view.swarm_samples - view.membership.self().samples;
  }
  // What the order of the data is drawn from, for a peer without a slot.
  std::uint64_t own_order() const { return resumed ? resumed->order : self.id.value; }
};

}  // namespace starling::node
