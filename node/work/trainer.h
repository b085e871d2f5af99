// What makes a peer's steps and counts them, as the daemon sees it: the threads of node/work/hogwild.h, or a
// trainer outside the process (node/trainers). The daemon's thread calls; counts may be read on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "node/work/gate.h"
#include "training/runs/records/peer_state.h"

namespace starling::node {

class Trainer {
 public:
  virtual ~Trainer() = default;

  // Continues from this state. The list has a sentence for each part that does not fit, and is dropped.
  // REQUIRES: before start().
  virtual std::vector<std::string> restore(const training::PeerState& state) = 0;
  // The arena holds other parameters than the restored ones. REQUIRES: before start().
  virtual void moved() = 0;

  virtual void start() = 0;
  // Begins no further step and drops those under way. When it returns, the arena and the counts have been
  // changed for the last time.
  virtual void stop() = 0;
  // Stops, and frees what the steps needed. The counts stay.
  virtual void give_back() = 0;

  // A step may begin while those done and under way, with earlier lives, have fewer samples than this, until
  // the next call. UINT64_MAX, at first: no limit.
  virtual void allow_samples(std::uint64_t samples) = 0;

  // Begins no further step until all have resumed the training.
  virtual void pause(PausedBy who) = 0;
  virtual void resume(PausedBy who) = 0;
  virtual bool is_paused(PausedBy who) const = 0;
  // Drops the steps under way. REQUIRES: paused.
  virtual void discard_steps() = 0;
  // The arena holds another replica: optimizers restart, and AdamW's warm up. REQUIRES: paused, steps
  // discarded; or before start().
  virtual void renew() = 0;

  // Requests a copy of the training's state, which any thread passes to `done`. False while another one is
  // under way, or if the trainer is not running. After stop() `done` is not called.
  using Done = std::function<void(std::shared_ptr<training::PeerState>)>;
  virtual bool capture(Done done) = 0;
  // The state of a trainer that has stopped or was never started.
  virtual training::PeerState remains() = 0;

  // The daemon has processed that many steps: under rules that wait, the next one waits for this.
  virtual void handled(std::uint64_t steps) = 0;
  // An exchange has changed the arena.
  virtual void mixed() {}

  // The swarm's part of the factor on the learning rate of steps that land from now on; 1 at first. The
  // trainer multiplies it by the peer's own part (training/runs/experiment/schedule.h).
  virtual void set_swarm_factor(double factor) = 0;
  // The factor of the next step.
  virtual double rate_factor() const = 0;

  // Counts include earlier lives, if any were restored.
  virtual std::uint64_t steps() const = 0;
  virtual std::uint64_t samples() const = 0;
  virtual Duration idle() const = 0;                 // how long no step could be made so far
  virtual std::optional<double> loss() const = 0;    // smoothed over recent steps; nullopt before the first
  virtual bool non_finite() const = 0;               // the replica is lost
  virtual std::optional<double> spread() const = 0;  // of the replicas of several devices
  virtual std::optional<std::string> failure() const = 0;  // why no steps are possible any more

  // What only a trainer outside knows: its learning rate, and the accuracy on its own test data.
  virtual std::optional<double> learning_rate() const { return std::nullopt; }
  struct Judged {
    std::uint64_t steps = 0;
    double accuracy = 0;
  };
  virtual std::optional<Judged> judged() const { return std::nullopt; }
};

}  // namespace starling::node
