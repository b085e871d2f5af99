// In which order the stages of a pipeline compute forward and backward passes of micro-batches, and update.
//
// The layers of a network are divided into consecutive stages, and a batch into micro-batches. Stage s gets
// the activations of micro-batch i from stage s - 1 and their gradient from stage s + 1. A stage may have
// several replicas, which share its micro-batches: replica i mod r computes micro-batch i. A Schedule only
// decides an order, which is known before anything runs; the machine (machine.h) follows it.
//
// Numbers of micro-batches count from the beginning of the run: batch b has the numbers from b M to b M + M -
// 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::training {

enum class PipelineSchedule : std::uint8_t {
  gpipe,        // Huang et al., "GPipe", NeurIPS 2019
  one_f_one_b,  // the same with the order of PipeDream and a flush (Narayanan et al., "Memory-efficient
                // pipeline-parallel DNN training", ICML 2021, section 2.2)
  layer_wise,   // one stage computes at a time
  pipedream,    // Narayanan et al., "PipeDream", SOSP 2019: no flush
};

struct PipelineTraits {
  std::string_view name;
  std::string_view help;    // one line, for lists
  bool flushes = true;      // an update comes after all micro-batches of a batch, with their summed gradient
  bool splits = true;       // there may be several micro-batches in a batch
  bool alternates = false;  // forward and backward passes alternate after the first forward passes
};

inline constexpr std::array<PipelineTraits, 4> kPipelineSchedules = {{
    {.name = "gpipe", .help = "all forward passes of a batch, then all backward passes, then an update"},
    {.name = "1f1b",
     .help = "forward and backward passes alternate, so that fewer activations are kept; then an update",
     .alternates = true},
    {.name = "layer-wise",
     .help = "a whole batch at a time, so one stage computes at a time",
     .splits = false},
    {.name = "pipedream",
     .help = "as 1f1b without a flush: an update after each micro-batch, with weights of earlier versions",
     .flushes = false,
     .alternates = true},
}};
constexpr const PipelineTraits& pipeline_traits(PipelineSchedule schedule) {
  return kPipelineSchedules[static_cast<std::size_t>(schedule)];
}

// What a replica of a stage does next.
struct StageTask {
  enum class Kind : std::uint8_t { forward, backward, update } kind = Kind::forward;
  std::uint64_t number = 0;  // of the micro-batch; of an update: how many came before
  friend bool operator==(const StageTask&, const StageTask&) = default;
};

struct PipelineShape {
  std::vector<std::uint32_t> replicas;  // of each stage, at least 1
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::uint32_t micro_batches = 1;  // of a batch; without flush: between two updates
  std::uint64_t batches = 1;

  std::size_t stages() const { return replicas.size(); }
  // The replicas of all stages are numbered: the first stage's, then the second one's, ...
  std::size_t all_replicas() const { return number_of(replicas.size(), 0); }
  std::size_t number_of(std::size_t stage, std::uint32_t replica) const {
    return std::accumulate(replicas.begin(), replicas.begin() + static_cast<std::ptrdiff_t>(stage),
                           std::size_t{replica});
  }
  std::uint64_t all_micro_batches() const { return batches * micro_batches; }
  std::uint32_t replica_of(std::size_t stage, std::uint64_t micro_batch) const {
    return static_cast<std::uint32_t>(micro_batch % replicas[stage]);
  }
};

// Whether all numbers are possible and every replica has as many micro-batches as the others of its stage in
// each of its updates.
Status check_shape(const PipelineShape& shape);

// The forward passes of a replica of this stage before its first backward pass, if there are enough
// micro-batches: w = (R - 1 - the replicas of earlier stages) / r, rounded down, of R replicas in all.
std::uint64_t warm_up_passes(const PipelineShape& shape, std::size_t stage);

// All tasks of a replica, in order. REQUIRES: check_shape() succeeds.
std::vector<StageTask> tasks_of(const PipelineShape& shape, std::size_t stage, std::uint32_t replica);

// The tasks of a replica for the first `count` micro-batches of a schedule without a flush. An update follows
// the last ones.
std::vector<StageTask> open_tasks(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
                                  std::uint64_t count);

// The most micro-batches whose activations a replica keeps at a time: from the end of a forward pass to the
// end of its backward pass.
std::uint64_t most_in_flight(const std::vector<StageTask>& tasks);

}  // namespace starling::training
