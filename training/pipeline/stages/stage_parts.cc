#include "training/pipeline/stages/stage_parts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "models/lowering.h"

namespace starling::training {
namespace {

// The stage of each tensor of the layout that has it first.
std::vector<std::optional<std::size_t>> owners_of(const models::Plan& plan, const std::vector<int>& bounds) {
  std::vector<std::optional<std::size_t>> owner(plan.layout.tensors().size());
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    for (int layer = bounds[s]; layer < bounds[s + 1]; ++layer)
      for (const std::size_t tensor : plan.layers[static_cast<std::size_t>(layer)].tensors)
        if (!owner[tensor]) owner[tensor] = s;
  }
  return owner;
}

}  // namespace

StageParts::StageParts(const models::Plan& plan, const kernels::Backend& backend, int samples,
                       const PipelineShape& shape, const StagedOptions& options)
    : recomputation_(options.recomputation),
      shape_(shape),
      bounds_{0},
      parts_(shape.all_replicas()),
      cuts_(shape.stages() - 1),
      arena_floats_(plan.layout.arena_size()),
      trained_floats_(plan.layout.trained_size()),
      batch_floats_(static_cast<std::size_t>(samples) * static_cast<std::size_t>(plan.spec.input.size())),
      labels_(static_cast<std::size_t>(samples) * static_cast<std::size_t>(plan.labels())),
      micro_gradient_(arena_floats_, backend.memory()) {
  STARLING_CHECK(backend.memory().on_host());
  STARLING_CHECK(options.backends.empty() || options.backends.size() == parts_.size());
  bounds_.insert(bounds_.end(), options.cuts.begin(), options.cuts.end());
  bounds_.push_back(static_cast<int>(plan.layers.size()));
  make_parts(backend, options);
  divide_tensors(plan, samples);
  if (pipeline_traits(options.schedule).flushes)
    for (Part& part : parts_)
      if (part.copy) part.sum = kernels::Buffer(part.copy->floats(), part.backend->memory());
  build_stages(plan, samples, options.seed);
}

void StageParts::make_parts(const kernels::Backend& backend, const StagedOptions& options) {
  for (std::size_t s = 0; s < shape_.stages(); ++s) {
    for (std::uint32_t replica = 0; replica < shape_.replicas[s]; ++replica) {
      const std::size_t number = shape_.number_of(s, replica);
      Part& part = parts_[number];
      part.stage = s;
      part.replica = replica;
      part.backend = options.backends.empty() ? &backend : options.backends[number];
      part.queue = part.backend->make_queue();
      part.places = most_in_flight(tasks_of(shape_, s, replica));
    }
  }
}

void StageParts::divide_tensors(const models::Plan& plan, int samples) {
  const auto owner = owners_of(plan, bounds_);
  for (Part& part : parts_) {
    const int begin = bounds_[part.stage], end = bounds_[part.stage + 1];
    if (part.replica > 0) part.own_gradient = kernels::Buffer(arena_floats_, kernels::host_memory());
    for (int layer = begin; layer < end; ++layer) {
      const models::LayerInfo& info = plan.layers[static_cast<std::size_t>(layer)];
      for (const std::size_t tensor : info.tensors) give_tensor(plan, part, tensor, *owner[tensor]);
      if (models::running_statistics(info)) part.statistics.emplace_back(plan, info, samples);
    }
    std::ranges::sort(part.ranges);
    part.gradient = part.own_gradient.size() > 0 ? part.own_gradient.data() : micro_gradient_.data();
    if (!part.backend->memory().on_host()) build_copy(part, plan.layout, tensors_of_layers(plan, begin, end));
  }
}

void StageParts::give_tensor(const models::Plan& plan, Part& part, std::size_t tensor, std::size_t owner) {
  const models::Tensor& it = plan.layout.tensors()[tensor];
  const FloatRange range{it.offset, it.offset + it.size};
  const auto add = [&range](std::vector<FloatRange>& ranges) {
    if (std::ranges::find(ranges, range) == ranges.end()) ranges.push_back(range);
  };
  add(part.reads);
  if (owner == part.stage) return add(part.ranges);
  if (part.own_gradient.size() == 0)
    part.own_gradient = kernels::Buffer(arena_floats_, kernels::host_memory());
  if (part.replica > 0) return;  // its micro-batches have places that the first replica has made
  SharedTensor& tied = shared_.emplace_back(SharedTensor{range, owner, part.stage});
  const std::size_t kept = parts_[shape_.number_of(owner, 0)].places * shape_.replicas[owner];
  for (std::size_t k = 0; k < kept; ++k) tied.places.emplace_back(it.size, part.backend->staging());
}

void StageParts::build_copy(Part& part, const models::Layout& layout,
                            const std::vector<std::size_t>& tensors) {
  kernels::Memory& memory = part.backend->memory();
  part.copy.emplace(layout, tensors);
  part.computed = kernels::Buffer(part.copy->floats(), memory);
  if (part.stage == 0)
    for (std::size_t k = 0; k < part.places; ++k) part.inputs.emplace_back(batch_floats_, memory);
  static_assert(sizeof(std::int32_t) == sizeof(float));
  if (part.stage + 1 == shape_.stages()) part.labels = kernels::Buffer(labels_, memory);
}

void StageParts::build_stages(const models::Plan& plan, int samples, std::uint64_t seed) {
  const models::Lowered lowered = models::lower(plan, seed);
  std::vector<models::Border> borders{models::batch_border(plan, lowered, *parts_[0].backend, samples)};
  for (std::size_t s = 0; s < shape_.stages(); ++s) {
    for (std::uint32_t replica = 0; replica < shape_.replicas[s]; ++replica) {
      Part& part = parts_[shape_.number_of(s, replica)];
      if (part.copy) {
        models::Plan of_copy = plan;
        of_copy.layout = part.copy->layout();
        build_sections(part, of_copy, models::lower(of_copy, seed), samples, borders);
      } else {
        build_sections(part, plan, lowered, samples, borders);
      }
    }
    borders = parts_[shape_.number_of(s, 0)].sections.front().outputs();
    if (s + 1 < shape_.stages()) build_cut(s, borders);
  }
  for (Part& part : parts_) {
    if (part.stage + 1 < shape_.stages()) continue;
    part.loss = part.backend->softmax_cross_entropy(*part.queue, borders.back().activation);
    part.loss_value = kernels::Staged<kernels::LossValue>(part.backend->staging());
  }
}

void StageParts::build_sections(Part& part, const models::Plan& plan, const models::Lowered& lowered,
                                int samples, const std::vector<models::Border>& borders) {
  for (std::size_t k = 0; k < (repeats() ? 1 : part.places); ++k)
    part.sections.emplace_back(plan, lowered, *part.backend, *part.queue,
                               models::SectionOptions{.batch = samples,
                                                      .purpose = models::Purpose::train,
                                                      .recompute = false,
                                                      .begin = bounds_[part.stage],
                                                      .end = bounds_[part.stage + 1],
                                                      .inputs = borders});
}

void StageParts::build_cut(std::size_t s, const std::vector<models::Border>& borders) {
  const std::uint32_t senders = shape_.replicas[s], receivers = shape_.replicas[s + 1];
  const std::size_t pairs = crossings_between(senders, receivers);
  for (std::size_t k = 0; k < pairs; ++k) {
    const Part& sender = parts_[shape_.number_of(s, shape_.replica_of(s, k))];
    const Part& receiver = parts_[shape_.number_of(s + 1, shape_.replica_of(s + 1, k))];
    cuts_[s].crossings.emplace_back(borders, places_of_crossing(sender.places, senders, receivers), pairs,
                                    *sender.backend, *receiver.backend);
  }
}

models::Section& StageParts::section(Part& part, std::uint64_t number) {
  return part.sections[turn(part, number) % part.sections.size()];
}

const float* StageParts::settle(std::size_t p, const float* arena, kernels::Buffer& copy) {
  Part& part = parts_[p];
  if (!part.copy) return arena;
  if (copy.size() == 0) copy = kernels::Buffer(part.copy->floats(), part.backend->memory());
  part.copy->upload(arena, copy.data(), *part.queue);
  part.queue->wait();
  return copy.data();
}

// Where the first stage reads the samples.
const float* StageParts::bring_inputs(Part& part, std::uint64_t number, const float* inputs) {
  if (part.stage > 0) {
    cuts_[part.stage - 1].of(number).take(number, *part.queue);
    return nullptr;
  }
  if (!part.copy) return inputs;
  kernels::Buffer& place = part.inputs[turn(part, number) % part.places];
  part.queue->upload(inputs, place.data(), place.bytes());
  return place.data();
}

std::span<const float* const> StageParts::inputs_of(const Part& part, std::uint64_t number,
                                                    const float* const& inputs) {
  if (part.stage > 0) return cuts_[part.stage - 1].of(number).values(number);
  return {&inputs, 1};
}

void StageParts::forward(std::size_t p, std::uint64_t number, std::uint64_t draw, const float* parameters,
                         const float* inputs) {
  Part& part = parts_[p];
  const float* const samples = bring_inputs(part, number, inputs);
  const auto read = inputs_of(part, number, samples);
  models::Section& it = section(part, number);
  it.set_draws(draw);
  it.forward(parameters, read);
  part.intact = number;
  if (!is_last(p)) cuts_[part.stage].of(number).put(number, it, read, *part.queue);
  part.queue->wait();
}

double StageParts::backward(std::size_t p, std::uint64_t number, std::uint64_t draw, const float* parameters,
                            const float* inputs, const std::int32_t* labels) {
  Part& part = parts_[p];
  const bool copied = part.stage == 0 && part.copy.has_value();
  const float* const samples = copied ? part.inputs[turn(part, number) % part.places].data() : inputs;
  const auto read = inputs_of(part, number, samples);
  models::Section& it = section(part, number);
  const bool is_there = part.intact == number && recomputation_ == Recomputation::except_last;
  if (repeats() && !is_there) {
    it.set_draws(draw + 1);  // as after its forward pass
    it.forward_again(parameters, read);
    part.intact = number;
  }
  if (is_last(p)) {
    part.loss->train(it.output(0, read), bring_labels(part, labels), it.output_gradient(0),
                     part.loss_value.get());
  } else {
    cuts_[part.stage].of(number).take_gradients(number, it, *part.queue);
  }
  take_shared(part, number);
  it.backward(parameters, read, written(part));
  if (part.stage > 0) cuts_[part.stage - 1].of(number).put_gradients(number, it, *part.queue);
  give_shared(part, number);
  part.queue->wait();
  return is_last(p) ? part.loss_value->sum : 0;
}

const std::int32_t* StageParts::bring_labels(Part& part, const std::int32_t* labels) {
  if (!part.copy) return labels;
  part.queue->upload(labels, part.labels.data(), part.labels.bytes());
  return reinterpret_cast<const std::int32_t*>(part.labels.data());
}

void StageParts::take_shared(Part& part, std::uint64_t number) {
  for (const SharedTensor& tied : shared_) {
    if (tied.owner != part.stage) continue;
    const kernels::Buffer& from = tied.places[number % tied.places.size()];
    part.queue->upload(from.data(), written(part) + place_of(part, tied.range.first), from.bytes());
  }
}

void StageParts::give_shared(Part& part, std::uint64_t number) {
  for (SharedTensor& tied : shared_) {
    if (tied.user != part.stage) continue;
    kernels::Buffer& to = tied.places[number % tied.places.size()];
    part.queue->download(written(part) + place_of(part, tied.range.first), to.data(), to.bytes());
  }
}

// ---- gradients ----

const float* StageParts::gradient(std::size_t p) {
  Part& part = parts_[p];
  if (part.copy) download(part, part.computed, part.ranges, part.gradient);
  return part.gradient;
}

const float* StageParts::statistics_change(std::size_t p) {
  Part& part = parts_[p];
  if (part.copy && !part.statistics.empty())
    download(part, part.computed, statistics_of(part), part.gradient);
  return part.gradient;
}

void StageParts::sum_gradient(std::size_t p, bool is_first, float* sum) {
  Part& part = parts_[p];
  if (part.copy) {
    if (is_first) return std::swap(part.computed, part.sum);
    const int floats = static_cast<int>(part.sum.size());
    part.backend->accumulate(*part.queue, part.backend->input({1, floats, 1, 1}, 1, 1), part.sum.data(),
                             part.computed.data());
    return part.queue->wait();
  }
  for (const auto& [begin, end] : part.ranges) {
    if (is_first) {
      std::copy(part.gradient + begin, part.gradient + end, sum + begin);
    } else {
      for (std::size_t i = begin; i < end; ++i) sum[i] += part.gradient[i];
    }
  }
}

void StageParts::finish_sum(std::size_t p, float* sum) {
  Part& part = parts_[p];
  if (part.copy) download(part, part.sum, part.ranges, sum);
}

void StageParts::scale_sum(std::size_t p, float* sum, float factor) const {
  if (factor == 1) return;
  for (const auto& [begin, end] : parts_[p].ranges)
    for (std::size_t i = begin; i < end; ++i) sum[i] *= factor;
}

void StageParts::download(Part& part, const kernels::Buffer& vector, std::span<const FloatRange> ranges,
                          float* arena) {
  part.copy->download(vector.data(), ranges, arena, *part.queue);
  part.queue->wait();
}

std::span<const FloatRange> StageParts::statistics_of(const Part& part) const {
  const auto first = std::ranges::lower_bound(part.ranges, trained_floats_, {}, &FloatRange::first);
  return {first, part.ranges.end()};
}

std::size_t StageParts::read_bytes(std::size_t p) const {
  const Part& part = parts_[p];
  std::size_t floats = part.copy ? part.copy->floats() : 0;
  if (!part.copy)
    for (const auto& [begin, end] : part.reads) floats += end - begin;
  return floats * sizeof(float);
}

StageMemory StageParts::memory(std::size_t p) const {
  const Part& part = parts_[p];
  StageMemory memory;
  for (const models::Section& section : part.sections) memory.sections += section.memory().total();
  memory.sections -= (part.sections.size() - 1) * part.queue->workspace_bytes();
  if (part.copy) {
    memory.gradients = part.computed.bytes() + part.sum.bytes();
    memory.versions = read_bytes(p);
    memory.crossings = part.labels.bytes();
    for (const kernels::Buffer& place : part.inputs) memory.crossings += place.bytes();
    for (std::size_t k = part.replica; part.stage > 0 && k < cuts_[part.stage - 1].crossings.size();
         k += shape_.replicas[part.stage])
      memory.crossings += cuts_[part.stage - 1].crossings[k].arrived_bytes();
    return memory;
  }
  for (std::size_t k = part.replica; !is_last(p) && k < cuts_[part.stage].crossings.size();
       k += shape_.replicas[part.stage])
    memory.crossings += cuts_[part.stage].crossings[k].bytes();
  memory.gradients = part.own_gradient.size() * sizeof(float);
  if (memory.gradients == 0) {
    for (const auto& [begin, end] : part.ranges) memory.gradients += (end - begin) * sizeof(float);
  }
  return memory;
}

}  // namespace starling::training
