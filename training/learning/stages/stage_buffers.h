// The parameters, samples and gradients that a replica of a stage computes with, in the memory of its back
// end. Parameters and the gradient of a batch are arenas on the host. A replica on the host computes in them:
// StageBuffers. One on a device has a copy of what it reads (stage_copy.h), and the sum of the gradients of a
// batch, which it copies to the host once: DeviceBuffers.
//
// Called on the replica's own thread. What the functions begin on a device is done when they return, except
// for bring_inputs() and bring_labels(), whose work is in the order of the replica's queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "training/learning/stages/stage_copy.h"
#include "training/learning/stages/stage_layers.h"
#include "training/learning/stages/stage_memory.h"

namespace starling::training {

class StageBuffers {
 public:
  // `layers` and `layout` outlive the buffers. `shared`: an arena on the host for the gradient of a
  // micro-batch, used by replicas that write different ranges; null: an arena of its own.
  StageBuffers(const StageLayers& layers, const models::Layout& layout, float* shared);
  virtual ~StageBuffers() = default;

  // The parameters that passes read: `arena`, or its copy on the device, which `copy` then holds. Only what
  // the stage reads is valid.
  virtual const float* parameters(const float* arena, kernels::Buffer& /*copy*/) { return arena; }
  // Of what passes read, and of the gradient that they write at written().
  virtual const models::Layout& layout() const { return layout_; }
  virtual float* written() { return gradient_; }

  // For the first stage: `samples`, on the host, of the replica's micro-batch `turn`, counted from 0. Passes
  // read them at inputs().
  virtual void bring_inputs(std::uint64_t /*turn*/, const float* /*samples*/) {}
  virtual const float* inputs(std::uint64_t /*turn*/, const float* samples) const { return samples; }
  // For the last stage: the labels as its loss reads them, from the host.
  virtual const std::int32_t* bring_labels(const std::int32_t* labels) { return labels; }

  // The gradient of the latest backward pass: an arena on the host, of which these ranges of the stage are
  // valid until its next one.
  virtual const float* gradient(std::span<const FloatRange> /*ranges*/) { return gradient_; }
  // Begins a sum with that gradient, or adds it. `sum` is an arena on the host; a device keeps the sum to
  // itself until finish_sum().
  virtual void sum_gradient(bool is_first, float* sum);
  virtual void finish_sum(float* /*sum*/) {}

  virtual std::size_t read_bytes() const { return floats_in(layers_.reads) * sizeof(float); }  // of a copy
  virtual StageMemory memory() const;  // without sections and what crosses cuts

 protected:
  const StageLayers& layers_;
  const models::Layout& layout_;
  kernels::Buffer own_;
  float* const gradient_;  // of a micro-batch, an arena on the host
};

class DeviceBuffers final : public StageBuffers {
 public:
  // For `places` micro-batches at a time. The back end, that of the queue, and the queue outlive the buffers.
  // Throws DeviceError, and so do all functions.
  DeviceBuffers(const StageModel& model, const StageLayers& layers, float* shared, std::size_t places,
                const kernels::Backend& backend, kernels::Queue& queue);

  const float* parameters(const float* arena, kernels::Buffer& copy) override;
  const models::Layout& layout() const override { return copy_.layout(); }
  float* written() override { return computed_.data(); }
  void bring_inputs(std::uint64_t turn, const float* samples) override;
  const float* inputs(std::uint64_t turn, const float* samples) const override;
  const std::int32_t* bring_labels(const std::int32_t* labels) override;
  const float* gradient(std::span<const FloatRange> ranges) override;
  void sum_gradient(bool is_first, float* sum) override;
  void finish_sum(float* sum) override;
  std::size_t read_bytes() const override { return copy_.floats() * sizeof(float); }
  StageMemory memory() const override;

 private:
  const kernels::Backend& backend_;
  kernels::Queue& queue_;
  StageCopy copy_;
  kernels::Buffer computed_, sum_;       // gradients, of a micro-batch and of those before
  std::vector<kernels::Buffer> inputs_;  // by place
  kernels::Buffer labels_;
};

}  // namespace starling::training
