// All stages of a network on one machine: the replicas of each stage, and what passes between them.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "training/learning/stages/stage_layers.h"
#include "training/learning/stages/stage_links.h"
#include "training/learning/stages/stage_replica.h"

namespace starling::training {

class Stages {
 public:
  // For micro-batches of `samples`. `shape` is shape_of() the options, for any number of batches. `plan` and
  // `backend` outlive the stages. Throws DeviceError. REQUIRES: check_stages() succeeds; `backend` computes
  // on the host.
  Stages(const models::Plan& plan, const kernels::Backend& backend, int samples, const PipelineShape& shape,
         const StagedOptions& options);
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  std::vector<StageReplica>& replicas() { return replicas_; }  // by number (PipelineShape::number_of())
  const std::vector<StageReplica>& replicas() const { return replicas_; }

 private:
  // Connects the replicas of the stage with those before it.
  void connect(const PipelineShape& shape, std::size_t stage, const std::vector<models::Border>& borders);
  void tie(const models::Plan& plan, const PipelineShape& shape, const StageLayers& user);
  // The replica of the stage that computes the micro-batch.
  StageReplica& replica_of(const PipelineShape& shape, std::size_t stage, std::uint64_t number) {
    return replicas_[shape.number_of(stage, shape.replica_of(stage, number))];
  }

  const std::vector<StageLayers> layers_;
  kernels::Buffer gradient_;  // of micro-batches: an arena that the first replicas of the stages share
  std::vector<StageReplica> replicas_;
  std::deque<Crossing> crossings_;
  std::deque<TiedGradient> tied_;
};

}  // namespace starling::training
