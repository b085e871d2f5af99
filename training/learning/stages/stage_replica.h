// A replica of a stage of a network on one machine: it computes the forward and backward passes of its
// micro-batches, each with a section of the plan, and passes on what later and earlier stages need. Its
// functions are called on its own thread, in the order that its machine (machine.h) gives; the messages of
// the machines order the replicas' accesses to what passes between them. What they compute is done when they
// return. All throw DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/section.h"
#include "training/learning/stages/stage_buffers.h"
#include "training/learning/stages/stage_layers.h"
#include "training/learning/stages/stage_links.h"
#include "training/learning/stages/stage_memory.h"
#include "training/learning/stages/staged_options.h"
#include "training/learning/stages/statistics_pool.h"

namespace starling::training {

struct MicroBatch {
  std::uint64_t number;        // in the schedule
  std::uint64_t draw;          // dropout draws as in this batch
  const float* inputs;         // on the host: its samples, for the first stage
  const std::int32_t* labels;  // on the host, for the last stage
};

class StageReplica {
 public:
  // `inputs`: what crosses the cut before the stage, or the batch. `shared_gradient`: an arena on the host
  // that outlives the replicas. The model does not, except for its back ends, but the layers do.
  StageReplica(const StageModel& model, const StageLayers& layers, std::uint32_t replica,
               const std::vector<models::Border>& inputs, float* shared_gradient);

  // Connects two replicas, by the crossings of their cut in order, or because the later one's stage uses a
  // tensor of the earlier one's. The link outlives both.
  void send_over(Crossing& behind) { behind_.push_back(&behind); }
  void receive_over(Crossing& before) { before_.push_back(&before); }
  void send_gradient(TiedGradient& tied) { sent_.push_back(&tied); }
  void receive_gradient(TiedGradient& tied) { received_.push_back(&tied); }

  std::size_t stage() const { return layers_.stage; }
  std::uint32_t replica() const { return replica_; }
  const StageLayers& layers() const { return layers_; }
  const kernels::Backend& backend() const { return backend_; }
  // The most micro-batches that are between their forward and backward passes.
  std::size_t places() const { return places_; }
  const std::vector<models::Border>& outputs() const { return sections_.front().outputs(); }
  StageBuffers& buffers() { return *buffers_; }
  std::vector<StatisticsPool>& statistics() { return statistics_; }

  // `parameters` are of buffers().parameters(), and the same in both passes of a micro-batch.
  void forward(const MicroBatch& micro, const float* parameters);
  // Computes the gradient of the micro-batch in buffers(). Returns the sum of its losses in the last stage,
  // and 0 in others.
  double backward(const MicroBatch& micro, const float* parameters);

  StageMemory memory() const;

 private:
  // The end of the last stage.
  struct Head {
    std::unique_ptr<kernels::Loss> loss;
    kernels::Staged<kernels::LossValue> value;
  };

  bool repeats() const { return recomputation_ != Recomputation::never; }
  // The number of a micro-batch among those that this replica computes.
  std::uint64_t turn_of(const MicroBatch& micro) const { return micro.number / replicas_; }
  models::Section& section_of(const MicroBatch& micro) {
    return sections_[turn_of(micro) % sections_.size()];
  }
  Crossing& before(const MicroBatch& micro) { return *before_[turn_of(micro) % before_.size()]; }
  Crossing& behind(const MicroBatch& micro) { return *behind_[turn_of(micro) % behind_.size()]; }
  std::span<const float* const> inputs_of(const MicroBatch& micro);
  // Where the gradient of a tensor is that the replica sends or receives.
  float* place_of(const TiedGradient& tied) {
    return buffers_->written() + buffers_->layout().tensors()[tied.tensor].offset;
  }
  void build_sections(const StageModel& model, const std::vector<models::Border>& inputs);

  const StageLayers& layers_;
  std::uint32_t replica_, replicas_;  // of the stage
  const kernels::Backend& backend_;
  Recomputation recomputation_;
  std::size_t places_;
  std::unique_ptr<kernels::Queue> queue_;
  std::unique_ptr<StageBuffers> buffers_;
  std::vector<models::Section> sections_;  // by micro-batch; a single one if forward passes are repeated
  std::optional<std::uint64_t> intact_;    // the micro-batch of a single section's latest forward pass
  std::optional<Head> head_;
  std::vector<StatisticsPool> statistics_;
  std::vector<Crossing*> before_, behind_;  // none before the first stage, none behind the last one
  std::vector<TiedGradient*> sent_, received_;
  const float* samples_ = nullptr;  // of the micro-batch under way, if it is the first stage
};

}  // namespace starling::training
