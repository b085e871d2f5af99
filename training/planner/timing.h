// A pipeline in virtual time: when each replica of each stage computes what, from the times of its tasks and
// the links between stages. It drives the machines of machine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "training/planner/machine.h"

namespace starling::training {

// Of a stage, in seconds for a micro-batch.
struct StageTimes {
  double forward = 1, backward = 1;
  double update = 0;
  double share = 0;  // until another replica has this one's gradient
  // Before a backward pass, unless the pass before it was the forward pass of its micro-batch.
  double recomputation = 0;
};

// From a stage to the next, and back. A transfer occupies its direction for bytes / bandwidth and arrives
// `latency` later. Each pair of replicas has its own link; stages compute while data travels.
struct StageLink {
  double latency = 0;                                          // seconds
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes a second
  double bytes = 0;                                            // of a micro-batch's activations
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // one for each
  std::vector<StageLink> links;    // one for each cut, or none: data arrives at once
};

// Of a task that follows the task `before` of the same replica.
double seconds_of(const StageTimes& times, const StageTask& task, const StageTask& before);

// When what the replicas send arrives. `times` outlives it.
class StageTransfers {
 public:
  explicit StageTransfers(const PipelineTimes& times) : times_(times) {}
  // Of a message that a replica of `stage` sends now. REQUIRES: time does not go back.
  double arrival(double now, std::size_t stage, const StageMessage& message);

 private:
  const PipelineTimes& times_;
  // When a link's direction is free: from a replica of a stage to one of another stage.
  std::map<std::tuple<std::size_t, std::uint32_t, std::size_t, std::uint32_t>, double> free_;
};

struct PipelineTrace {
  struct Entry {
    std::size_t stage;
    std::uint32_t replica;
    StageWork work;
    double begin, end;
  };
  struct Replica {
    std::size_t stage;
    std::uint32_t replica;
    double busy = 0;  // seconds
    std::size_t most_in_flight = 0, most_versions = 0;
  };
  std::vector<Entry> entries;  // by their ends
  std::vector<Replica> replicas;
  double seconds = 0;

  // The part of the time in which replicas are idle, over all of them.
  double bubble() const;
};

// REQUIRES: check_shape() succeeds; `times` has an entry for each stage and no or all links.
PipelineTrace time_pipeline(const PipelineShape& shape, const PipelineTimes& times,
                            StageOptions options = {});

}  // namespace starling::training
