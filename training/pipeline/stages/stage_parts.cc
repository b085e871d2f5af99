#include "training/pipeline/stages/stage_parts.h"

#include <algorithm>
#include <string>
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

Status check_stages(const models::Plan& plan, int batch, const StagedOptions& options) {
  const auto layers = static_cast<int>(plan.layers.size());
  if (options.cuts.size() + 1 > plan.layers.size()) {
    return Error{std::to_string(options.cuts.size() + 1) + " stages are impossible: " + plan.spec.name +
                 " has " + std::to_string(layers) + " layers, so at most as many stages"};
  }
  int before = 0;
  for (const int cut : options.cuts) {
    if (cut <= before || cut >= layers) {
      return Error{"a stage cannot begin with layer " + std::to_string(cut) +
                   ": cuts are ascending, from 1 to " + std::to_string(layers - 1)};
    }
    before = cut;
  }
  const PipelineShape shape{std::vector<std::uint32_t>(options.cuts.size() + 1, 1), options.schedule,
                            options.micro_batches, 1};
  if (const Status possible = check_shape(shape); !possible) return possible;
  if (pipeline_traits(options.schedule).flushes && batch % static_cast<int>(options.micro_batches) != 0) {
    return Error{"a batch of " + std::to_string(batch) + " samples cannot be divided into " +
                 std::to_string(options.micro_batches) + " micro-batches of equal size"};
  }
  return Done{};
}

StageParts::StageParts(const models::Plan& plan, const kernels::Backend& backend, int samples,
                       const PipelineShape& shape, const StagedOptions& options)
    : recomputation_(options.recomputation),
      bounds_{0},
      arena_floats_(plan.layout.arena_size()),
      trained_floats_(plan.layout.trained_size()),
      batch_floats_(static_cast<std::size_t>(samples) * static_cast<std::size_t>(plan.spec.input.size())),
      labels_(static_cast<std::size_t>(samples) * static_cast<std::size_t>(plan.labels())),
      micro_gradient_(arena_floats_, backend.memory()) {
  STARLING_CHECK(backend.memory().on_host());
  STARLING_CHECK(options.backends.empty() || options.backends.size() == shape.stages());
  bounds_.insert(bounds_.end(), options.cuts.begin(), options.cuts.end());
  bounds_.push_back(static_cast<int>(plan.layers.size()));
  stages_.resize(shape.stages());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    stage.backend = options.backends.empty() ? &backend : options.backends[s];
    stage.queue = stage.backend->make_queue();
    stage.places = most_in_flight(tasks_of(shape, s, 0));
  }
  divide_tensors(plan, samples);
  if (pipeline_traits(options.schedule).flushes)
    for (Stage& stage : stages_)
      if (stage.copy) stage.sum = kernels::Buffer(stage.copy->floats(), stage.backend->memory());
  build_stages(plan, samples, options.seed);
}

void StageParts::divide_tensors(const models::Plan& plan, int samples) {
  const auto owner = owners_of(plan, bounds_);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    for (int layer = bounds_[s]; layer < bounds_[s + 1]; ++layer) {
      const models::LayerInfo& info = plan.layers[static_cast<std::size_t>(layer)];
      for (const std::size_t tensor : info.tensors) give_tensor(plan, s, tensor, *owner[tensor]);
      if (models::running_statistics(info)) stage.statistics.emplace_back(plan, info, samples);
    }
    std::ranges::sort(stage.ranges);
    stage.gradient = stage.own_gradient.size() > 0 ? stage.own_gradient.data() : micro_gradient_.data();
    if (!stage.backend->memory().on_host())
      build_copy(s, plan.layout, tensors_of_layers(plan, bounds_[s], bounds_[s + 1]));
  }
}

void StageParts::give_tensor(const models::Plan& plan, std::size_t s, std::size_t tensor, std::size_t owner) {
  const models::Tensor& it = plan.layout.tensors()[tensor];
  const FloatRange range{it.offset, it.offset + it.size};
  const auto add = [&range](std::vector<FloatRange>& ranges) {
    if (std::ranges::find(ranges, range) == ranges.end()) ranges.push_back(range);
  };
  add(stages_[s].reads);
  if (owner == s) return add(stages_[s].ranges);
  SharedTensor& tied = shared_.emplace_back(SharedTensor{range, owner, s});
  for (std::size_t k = stages_[owner].places; k > 0; --k)
    tied.places.emplace_back(it.size, stages_[s].backend->staging());
  if (stages_[s].own_gradient.size() == 0)
    stages_[s].own_gradient = kernels::Buffer(arena_floats_, kernels::host_memory());
}

void StageParts::build_copy(std::size_t s, const models::Layout& layout,
                            const std::vector<std::size_t>& tensors) {
  Stage& stage = stages_[s];
  kernels::Memory& memory = stage.backend->memory();
  stage.copy.emplace(layout, tensors);
  stage.computed = kernels::Buffer(stage.copy->floats(), memory);
  if (s == 0)
    for (std::size_t k = 0; k < stage.places; ++k) stage.inputs.emplace_back(batch_floats_, memory);
  static_assert(sizeof(std::int32_t) == sizeof(float));
  if (is_last(s)) stage.labels = kernels::Buffer(labels_, memory);
}

void StageParts::build_stages(const models::Plan& plan, int samples, std::uint64_t seed) {
  const models::Lowered lowered = models::lower(plan, seed);
  std::vector<models::Border> borders{models::batch_border(plan, lowered, *stages_[0].backend, samples)};
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    if (stage.copy) {
      models::Plan of_copy = plan;
      of_copy.layout = stage.copy->layout();
      build_sections(s, of_copy, models::lower(of_copy, seed), samples, borders);
    } else {
      build_sections(s, plan, lowered, samples, borders);
    }
    borders = stage.sections.front().outputs();
    if (!is_last(s)) crossings_.emplace_back(borders, stage.places, *stage.backend, *stages_[s + 1].backend);
  }
  Stage& last = stages_.back();
  loss_ = last.backend->softmax_cross_entropy(*last.queue, borders.back().activation);
  loss_value_ = kernels::Staged<kernels::LossValue>(last.backend->staging());
}

void StageParts::build_sections(std::size_t s, const models::Plan& plan, const models::Lowered& lowered,
                                int samples, const std::vector<models::Border>& borders) {
  Stage& stage = stages_[s];
  for (std::size_t k = 0; k < (repeats() ? 1 : stage.places); ++k)
    stage.sections.emplace_back(plan, lowered, *stage.backend, *stage.queue,
                                models::SectionOptions{.batch = samples,
                                                       .purpose = models::Purpose::train,
                                                       .recompute = false,
                                                       .begin = bounds_[s],
                                                       .end = bounds_[s + 1],
                                                       .inputs = borders});
}

models::Section& StageParts::section(std::size_t s, std::uint64_t number) {
  auto& sections = stages_[s].sections;
  return sections[number % sections.size()];
}

const float* StageParts::settle(std::size_t s, const float* arena, kernels::Buffer& copy) {
  Stage& stage = stages_[s];
  if (!stage.copy) return arena;
  if (copy.size() == 0) copy = kernels::Buffer(stage.copy->floats(), stage.backend->memory());
  stage.copy->upload(arena, copy.data(), *stage.queue);
  stage.queue->wait();
  return copy.data();
}

// Where the first stage reads the samples.
const float* StageParts::bring_inputs(std::size_t s, std::uint64_t number, const float* inputs) {
  Stage& stage = stages_[s];
  if (s > 0) {
    crossings_[s - 1].take(number, *stage.queue);
    return nullptr;
  }
  if (!stage.copy) return inputs;
  kernels::Buffer& place = stage.inputs[number % stage.places];
  stage.queue->upload(inputs, place.data(), place.bytes());
  return place.data();
}

std::span<const float* const> StageParts::inputs_of(std::size_t s, std::uint64_t number,
                                                    const float* const& inputs) {
  if (s > 0) return crossings_[s - 1].values(number);
  return {&inputs, 1};
}

void StageParts::forward(std::size_t s, std::uint64_t number, std::uint64_t draw, const float* parameters,
                         const float* inputs) {
  Stage& stage = stages_[s];
  const float* const samples = bring_inputs(s, number, inputs);
  const auto read = inputs_of(s, number, samples);
  models::Section& it = section(s, number);
  it.set_draws(draw);
  it.forward(parameters, read);
  stage.intact = number;
  if (!is_last(s)) crossings_[s].put(number, it, read, *stage.queue);
  stage.queue->wait();
}

double StageParts::backward(std::size_t s, std::uint64_t number, std::uint64_t draw, const float* parameters,
                            const float* inputs, const std::int32_t* labels) {
  Stage& stage = stages_[s];
  const float* const samples = s == 0 && stage.copy ? stage.inputs[number % stage.places].data() : inputs;
  const auto read = inputs_of(s, number, samples);
  models::Section& it = section(s, number);
  const bool is_there = stage.intact == number && recomputation_ == Recomputation::except_last;
  if (repeats() && !is_there) {
    it.set_draws(draw + 1);  // as after its forward pass
    it.forward_again(parameters, read);
    stage.intact = number;
  }
  if (is_last(s)) {
    loss_->train(it.output(0, read), bring_labels(labels), it.output_gradient(0), loss_value_.get());
  } else {
    crossings_[s].take_gradients(number, it, *stage.queue);
  }
  take_shared(s, number);
  it.backward(parameters, read, written(stage));
  if (s > 0) crossings_[s - 1].put_gradients(number, it, *stage.queue);
  give_shared(s, number);
  stage.queue->wait();
  return is_last(s) ? loss_value_->sum : 0;
}

const std::int32_t* StageParts::bring_labels(const std::int32_t* labels) {
  Stage& stage = stages_.back();
  if (!stage.copy) return labels;
  stage.queue->upload(labels, stage.labels.data(), stage.labels.bytes());
  return reinterpret_cast<const std::int32_t*>(stage.labels.data());
}

void StageParts::take_shared(std::size_t s, std::uint64_t number) {
  Stage& stage = stages_[s];
  for (const SharedTensor& tied : shared_) {
    if (tied.owner != s) continue;
    const kernels::Buffer& from = tied.places[number % tied.places.size()];
    stage.queue->upload(from.data(), written(stage) + place_of(stage, tied.range.first), from.bytes());
  }
}

void StageParts::give_shared(std::size_t s, std::uint64_t number) {
  Stage& stage = stages_[s];
  for (SharedTensor& tied : shared_) {
    if (tied.user != s) continue;
    kernels::Buffer& to = tied.places[number % tied.places.size()];
    stage.queue->download(written(stage) + place_of(stage, tied.range.first), to.data(), to.bytes());
  }
}

// ---- gradients ----

const float* StageParts::gradient(std::size_t s) {
  Stage& stage = stages_[s];
  if (stage.copy) download(stage, stage.computed, stage.ranges, stage.gradient);
  return stage.gradient;
}

const float* StageParts::statistics_change(std::size_t s) {
  Stage& stage = stages_[s];
  if (stage.copy && !stage.statistics.empty())
    download(stage, stage.computed, statistics_of(stage), stage.gradient);
  return stage.gradient;
}

void StageParts::sum_gradient(std::size_t s, bool is_first, float* sum) {
  Stage& stage = stages_[s];
  if (stage.copy) {
    if (is_first) return std::swap(stage.computed, stage.sum);
    const int floats = static_cast<int>(stage.sum.size());
    stage.backend->accumulate(*stage.queue, stage.backend->input({1, floats, 1, 1}, 1, 1), stage.sum.data(),
                              stage.computed.data());
    return stage.queue->wait();
  }
  for (const auto& [begin, end] : stage.ranges) {
    if (is_first) {
      std::copy(stage.gradient + begin, stage.gradient + end, sum + begin);
    } else {
      for (std::size_t i = begin; i < end; ++i) sum[i] += stage.gradient[i];
    }
  }
}

void StageParts::finish_sum(std::size_t s, float* sum, float factor) {
  Stage& stage = stages_[s];
  if (stage.copy) download(stage, stage.sum, stage.ranges, sum);
  if (factor == 1) return;
  for (const auto& [begin, end] : stage.ranges)
    for (std::size_t i = begin; i < end; ++i) sum[i] *= factor;
}

void StageParts::download(Stage& stage, const kernels::Buffer& vector, std::span<const FloatRange> ranges,
                          float* arena) {
  stage.copy->download(vector.data(), ranges, arena, *stage.queue);
  stage.queue->wait();
}

std::span<const FloatRange> StageParts::statistics_of(const Stage& stage) const {
  const auto first = std::ranges::lower_bound(stage.ranges, trained_floats_, {}, &FloatRange::first);
  return {first, stage.ranges.end()};
}

std::size_t StageParts::read_bytes(std::size_t s) const {
  const Stage& stage = stages_[s];
  std::size_t floats = stage.copy ? stage.copy->floats() : 0;
  if (!stage.copy)
    for (const auto& [begin, end] : stage.reads) floats += end - begin;
  return floats * sizeof(float);
}

StageMemory StageParts::memory(std::size_t s) const {
  const Stage& stage = stages_[s];
  StageMemory memory;
  for (const models::Section& section : stage.sections) memory.sections += section.memory().total();
  memory.sections -= (stage.sections.size() - 1) * stage.queue->workspace_bytes();
  if (stage.copy) {
    memory.gradients = stage.computed.bytes() + stage.sum.bytes();
    memory.versions = read_bytes(s);
    memory.crossings = stage.labels.bytes();
    for (const kernels::Buffer& place : stage.inputs) memory.crossings += place.bytes();
    if (s > 0) memory.crossings += crossings_[s - 1].arrived_bytes();
    return memory;
  }
  if (!is_last(s)) memory.crossings = crossings_[s].bytes();
  memory.gradients = stage.own_gradient.size() * sizeof(float);
  if (memory.gradients == 0) {
    for (const auto& [begin, end] : stage.ranges) memory.gradients += (end - begin) * sizeof(float);
  }
  return memory;
}

}  // namespace starling::training
