// The lives of a peer. Each begins when all of its parts exist, is constructed whole, and owns them:
//
//   Started    from the process's first moment: the options, the loop, the threads, what happened so far
//   Listening  it has its identity and its name, and accepts connections (listening.h)
//   Built      it has the replica of the run
//   Running    it has the core
//   Equipped   it has all that the core's actions need: the trainer and the mixer
//
// A peer that begins a run is Built before it is Running, since the manifest needs the model; a joiner
// afterwards, since it learns the model from the swarm. Started outlives Listening, which outlives the other
// three. The daemon's thread owns them; the builder and the disk read what does not change any more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/peer.h"
#include "node/front/event_log.h"
#include "node/launch/process.h"
#include "node/peer/options.h"
#include "node/trainers/outside_trainer.h"
#include "node/work/background.h"
#include "node/work/replica.h"
#include "node/work/trainer.h"
#include "training/mixing/mixer.h"
#include "training/runs/experiment/schedule.h"

namespace starling::node {

using Drive = std::function<void(gossip::Event)>;  // passes the core an event

// How far the peer is. It advances in this order only.
enum class PeerStage : std::uint8_t {
  starting,  // until training or serving begins
  training,
  serving,   // a parameter server: makes no steps
  settling,  // the run's last step is done
  leaving,   // a signal or a command ended it; the core announces that
  ending,    // the core has finished, or there was none: files are written, links are flushed
};

struct Started {
  explicit Started(const DaemonOptions& given)
      : options(given),
        process(io, options.process, disk),
        builder(io.get_executor()),
        disk(io.get_executor()) {}

  DaemonOptions options;  // `join` grows by peers that are discovered
  asio::io_context io{1};
  Process process;
  Background builder;  // loads the data, builds the replica, analyzes the topology
  Background disk;     // writes files, evaluates the final replica

  const std::chrono::steady_clock::time_point origin = std::chrono::steady_clock::now();
  PeerStage stage = PeerStage::starting;
  std::optional<gossip::Finish::How> finish{};  // once it is ending
  bool restart_may_help = false;  // a failure from now on has exit code 1, as another start may succeed
  bool other_version = false;     // a failure is about versions, and has exit code 4
  EventLog events{};

  Instant now() const {
    return Instant{std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - origin)};
  }
  void advance(PeerStage to) {
    if (to > stage) stage = to;
  }
};

struct Built {
  training::Experiment experiment;  // the run's, with this peer's own settings
  std::unique_ptr<Replica> replica;
  std::vector<float> first_parameters{};  // from a file; empty: drawn from the seed
};

struct Running {
  explicit Running(gossip::PeerOptions options) : core(std::move(options)) {}

  gossip::Peer core;
  wire::Manifest manifest{};  // the run's; empty until the core prepares the peer

  wire::Phase phase() const { return core.view().membership.self().phase; }
  // Samples of all peers that ever took part, without those of this id.
  std::uint64_t others_samples() const {
    const auto view = core.view();
    return view.swarm_samples - view.membership.self().samples;
  }
};

struct Equipped {
  std::unique_ptr<training::Mixer> mixer;
  std::unique_ptr<Trainer> trainer;
  OutsideTrainer* outside;  // `trainer` with --trainer; else null
  training::RateSchedule schedule;
  bool copied = false;  // the parameters are another member's
};

// The lives that begin while the loop runs; each is set once.
struct Lives {
  std::optional<Built> built{};
  std::optional<Running> running{};
  std::optional<Equipped> equipped{};  // only if the other two are set

  // It has a core that has not finished.
  bool is_running() const { return running && !running->core.view().over; }
  bool is_member(PeerId peer) const {
    return running && running->core.view().membership.find(peer) != nullptr;
  }
  OutsideTrainer* outside() const { return equipped ? equipped->outside : nullptr; }
};

}  // namespace starling::node
