// The memory of the stages of a network.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/backend.h"
#include "models/spec.h"
#include "training/learning/stages/staged_options.h"
#include "training/planner/schedule.h"

namespace starling::training {

// Bytes that a stage holds, without parameters and their gradient for the batch. Of a stage on a device these
// are bytes of the device; the host's memory through which values pass is not counted.
struct StageMemory {
  std::size_t sections = 0;   // activations, gradients of activations and workspaces, of all places
  std::size_t crossings = 0;  // activations that it sent and gradients that it gets, until they are read
  std::size_t gradients = 0;  // of parameters, for one micro-batch; on a device also their sum
  std::size_t versions = 0;   // of parameters, besides the newest; on a device all
  std::size_t total() const { return sections + crossings + gradients + versions; }
};

// The same of the last replica of each stage, without building the stages: for micro-batches of `samples`, by
// the schedule of `shape`, which has the replicas of each stage. Builds one section at a time, so that it
// takes the memory of one micro-batch in one stage. REQUIRES: check_stages() succeeds; all stages compute on
// `backend`.
std::vector<StageMemory> predict_stage_memory(const models::Plan& plan, const kernels::Backend& backend,
                                              int samples, const PipelineShape& shape,
                                              const StagedOptions& options);

}  // namespace starling::training
