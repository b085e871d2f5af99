// What a virtual machine trains: its replica, and the learner that makes steps on it. A step reads the
// parameters at its start and adds its update at its end, so a learner may compute in the background.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "models/arena.h"
#include "training/mixing/make.h"
#include "training/planner/machine.h"

namespace starling::lab {

class Learner {
 public:
  virtual ~Learner() = default;

  // Training starts on this arena, which outlives the learner, and stops.
  virtual void start(models::Arena& /*arena*/) {}
  virtual void stop() {}
  // How much longer the worker's next step takes, for what its device has to wait for first.
  virtual Duration waits(std::uint32_t /*worker*/) { return Duration{0}; }
  // A step of a Hogwild worker begins, which ends at `ends` or, after a pause, later. The learner reads the
  // arena before this call or the next arena_will_change() returns.
  virtual void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) = 0;
  // An exchange is about to write to the arena.
  virtual void arena_will_change() {}
  // The samples that the swarm has consumed as far as the core knows; called before each end_step().
  virtual void swarm_has_consumed(std::uint64_t /*samples*/) {}
  // The worker's oldest step under way ends: adds its update and returns the number of samples it consumed.
  virtual std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) = 0;
  // It ends without an update.
  virtual void discard_step(std::uint32_t /*worker*/) {}
  // Of a machine with one worker, whose batches follow one another through stages (MachineOptions::stream): a
  // stage begins or ends a pass of a batch, or an update. It reads the arena at the beginning of a forward
  // pass, and writes to it at the end of an update. The first forward pass of a batch begins its step, whose
  // updates are made when it ends.
  virtual void begin_work(std::size_t /*stage*/, const training::StageWork& /*work*/,
                          const models::Arena& /*arena*/) {}
  virtual void end_work(std::size_t /*stage*/, const training::StageWork& /*work*/,
                        models::Arena& /*arena*/) {}
  // No later step will add an update; a step under way will be discarded.
  virtual void over() {}
  // The arena holds the parameters of another peer: the optimizer's state is reset.
  virtual void renew() {}
  // Before the first step: the peer joined a swarm that had consumed so many samples, and has a copy.
  virtual void join(std::uint64_t /*swarm_samples*/) {}
  // Smoothed loss of recent steps, for the time series.
  virtual double loss() const { return 0; }
  // Of the latest step; nullopt before the first.
  virtual std::optional<double> learning_rate() const { return std::nullopt; }
};

// Makes no changes, and its steps count so many samples each: for servers, and for worlds without training.
class IdleLearner : public Learner {
 public:
  explicit IdleLearner(std::uint64_t samples = 0) : samples_(samples) {}
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override { return samples_; }

 private:
  std::uint64_t samples_;
};

struct VirtualReplica {
  VirtualReplica(std::size_t floats, const training::MixOptions& mix) { renew(floats, mix); }

  void renew(std::size_t floats, const training::MixOptions& mix) {
    mixer.reset();
    learner.reset();
    arena = std::make_unique<models::Arena>(floats);
    mixer = training::make_mixer(*arena, mix);
    present = copied = false;
  }

  // Called before anything except a step writes to the arena.
  void will_change() {
    if (learner) learner->arena_will_change();
  }

  std::unique_ptr<models::Arena> arena;
  std::unique_ptr<training::Mixer> mixer;  // of the arena
  std::unique_ptr<Learner> learner;        // null before the machine's start
  bool present = false;                    // the arena holds the peer's parameters
  bool copied = false;                     // they came from another peer
};

}  // namespace starling::lab
