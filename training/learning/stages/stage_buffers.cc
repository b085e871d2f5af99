#include "training/learning/stages/stage_buffers.h"

#include <utility>

namespace starling::training {

StageBuffers::StageBuffers(const StageLayers& layers, const models::Layout& layout, float* shared)
    : layers_(layers),
      layout_(layout),
      own_(shared == nullptr ? layout.arena_size() : 0),
      gradient_(shared == nullptr ? own_.data() : shared) {}

void StageBuffers::sum_gradient(bool is_first, float* sum) {
  sum_ranges(layers_.ranges, is_first, gradient_, sum);
}

StageMemory StageBuffers::memory() const {
  const std::size_t gradients = own_.size() > 0 ? own_.size() : floats_in(layers_.ranges);
  return {.gradients = gradients * sizeof(float)};
}

DeviceBuffers::DeviceBuffers(const StageModel& model, const StageLayers& layers, float* shared,
                             std::size_t places, const kernels::Backend& backend, kernels::Queue& queue)
    : StageBuffers(layers, model.plan.layout, shared),
      backend_(backend),
      queue_(queue),
      copy_(model.plan.layout, layers.tensors),
      computed_(copy_.floats(), backend.memory()) {
  static_assert(sizeof(std::int32_t) == sizeof(float));
  const auto samples = static_cast<std::size_t>(model.samples);
  const auto inputs = samples * static_cast<std::size_t>(model.plan.spec.input.size());
  const auto labels = samples * static_cast<std::size_t>(model.plan.labels());
  if (pipeline_traits(model.options.schedule).flushes)
    sum_ = kernels::Buffer(copy_.floats(), backend.memory());
  for (std::size_t k = 0; layers.is_first() && k < places; ++k)
    inputs_.emplace_back(inputs, backend.memory());
  if (layers.is_last()) labels_ = kernels::Buffer(labels, backend.memory());
}

const float* DeviceBuffers::parameters(const float* arena, kernels::Buffer& copy) {
  if (copy.size() == 0) copy = kernels::Buffer(copy_.floats(), backend_.memory());
  copy_.upload(arena, copy.data(), queue_);
  queue_.wait();
  return copy.data();
}

void DeviceBuffers::bring_inputs(std::uint64_t turn, const float* samples) {
  kernels::Buffer& place = inputs_[turn % inputs_.size()];
  queue_.upload(samples, place.data(), place.bytes());
}

const float* DeviceBuffers::inputs(std::uint64_t turn, const float*) const {
  return inputs_[turn % inputs_.size()].data();
}

const std::int32_t* DeviceBuffers::bring_labels(const std::int32_t* labels) {
  queue_.upload(labels, labels_.data(), labels_.bytes());
  return reinterpret_cast<const std::int32_t*>(labels_.data());
}

const float* DeviceBuffers::gradient(std::span<const FloatRange> ranges) {
  copy_.download(computed_.data(), ranges, gradient_, queue_);
  queue_.wait();
  return gradient_;
}

void DeviceBuffers::sum_gradient(bool is_first, float*) {
  if (is_first) return std::swap(computed_, sum_);
  const int floats = static_cast<int>(sum_.size());
  backend_.accumulate(queue_, backend_.input({1, floats, 1, 1}, 1, 1), sum_.data(), computed_.data());
  queue_.wait();
}

void DeviceBuffers::finish_sum(float* sum) {
  copy_.download(sum_.data(), layers_.ranges, sum, queue_);
  queue_.wait();
}

StageMemory DeviceBuffers::memory() const {
  StageMemory memory{
      .crossings = labels_.bytes(), .gradients = computed_.bytes() + sum_.bytes(), .versions = read_bytes()};
  for (const kernels::Buffer& place : inputs_) memory.crossings += place.bytes();
  return memory;
}

}  // namespace starling::training
