// How a network is divided into stages.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/planner/recomputation.h"
#include "training/planner/schedule.h"

namespace starling::training {

struct StagedOptions {
  std::vector<int> cuts{};  // the first layer of each stage but the first, ascending
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  // Of a batch. Without a flush a batch is not divided, and so many batches are between two updates.
  std::uint32_t micro_batches = 1;
  Recomputation recomputation = Recomputation::never;
  std::uint64_t seed = 0;  // of dropout's draws
  bool stash = true;       // the same three as StageOptions, for schedules without a flush
  bool vertical_sync = false;
  std::vector<std::uint32_t> replicas{};  // of each stage; empty: one
  // That of each replica of each stage, by number (PipelineShape::number_of()); they outlive the network. All
  // are of one kind: what passes between them has its format. Empty: all compute on the back end of the
  // network.
  std::vector<const kernels::Backend*> backends{};
};

// For `batches` batches; without a flush for the smallest number from there that every stage can divide among
// its replicas.
PipelineShape shape_of(const StagedOptions& options, std::uint64_t batches = 1);

// Whether a plan can be divided so. The Error says what is possible.
Status check_stages(const models::Plan& plan, int batch, const StagedOptions& options);

}  // namespace starling::training
