// Measures the stages of a running network: the thread of each replica of a stage reports its tasks, and any
// thread reads. What it measured is a trace (timing.h), as the schedule in virtual time has one: how long
// each replica has computed while batches were in the stages, how long that was, and the tasks of a recent
// batch. A task's time is that of the clock: if several stages share a processor, it includes the time in
// which the others had it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "training/planner/machine.h"
#include "training/planner/timing.h"

namespace starling::training {

class StageClock {
 public:
  // `now`: seconds, never decreasing; by default of the steady clock.
  explicit StageClock(PipelineShape shape, std::function<double()> now = {});

  // Batches are in the stages from now on; no longer.
  void start();
  void stop();
  // The machine's replica begins this work, or has ended it.
  void begin(const StageMachine& machine, const StageWork& work);
  void end(const StageMachine& machine);

  struct Reading {
    // Sums over all batches. `entries`: the tasks of the latest complete batch, or without a flush of at
    // least kBatchesShown of the latest; at most kMostEntries, from the first one's beginning.
    PipelineTrace trace;
    std::uint64_t steps = 0;  // batches that have left the first stage
  };
  Reading read() const;

  static constexpr std::uint64_t kBatchesShown = 12;
  static constexpr std::size_t kMostEntries = 512;

 private:
  void show_window();

  const PipelineShape shape_;
  const std::function<double()> now_;
  const std::size_t longest_window_;
  mutable std::mutex mutex_;  // of what follows
  PipelineTrace trace_;
  std::uint64_t micro_batches_ = 0;                             // that have left the first stage
  std::optional<double> active_since_;                          // while batches are in the stages
  std::vector<PipelineTrace::Entry> window_;                    // of the batch under way
  std::vector<std::optional<PipelineTrace::Entry>> under_way_;  // by number of the replica
};

}  // namespace starling::training
