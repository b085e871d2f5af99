#include "training/pipeline/stages/stage_parts.h"

#include <algorithm>
#include <string>

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
    : memory_(backend.memory()),
      recomputation_(options.recomputation),
      bounds_{0},
      loss_value_(backend.staging()),
      arena_floats_(plan.layout.arena_size()),
      micro_gradient_(arena_floats_, backend.memory()) {
  STARLING_CHECK(memory_.on_host());
  bounds_.insert(bounds_.end(), options.cuts.begin(), options.cuts.end());
  bounds_.push_back(static_cast<int>(plan.layers.size()));
  build_stages(plan, backend, samples, shape, options.seed);
  divide_tensors(plan, samples);
}

void StageParts::build_stages(const models::Plan& plan, const kernels::Backend& backend, int samples,
                              const PipelineShape& shape, std::uint64_t seed) {
  const models::Lowered lowered = models::lower(plan, seed);
  std::vector<models::Border> borders{models::batch_border(plan, lowered, backend, samples)};
  stages_.resize(shape.stages());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    stage.queue = backend.make_queue();
    stage.places = most_in_flight(tasks_of(shape, s, 0));
    for (std::size_t k = 0; k < (repeats() ? 1 : stage.places); ++k)
      stage.sections.emplace_back(plan, lowered, backend, *stage.queue,
                                  models::SectionOptions{.batch = samples,
                                                         .purpose = models::Purpose::train,
                                                         .recompute = false,
                                                         .begin = bounds_[s],
                                                         .end = bounds_[s + 1],
                                                         .inputs = borders});
    borders = stage.sections.front().outputs();
    if (!is_last(s)) crossings_.emplace_back(borders, stage.places, backend.memory());
  }
  loss_ = backend.softmax_cross_entropy(*stages_.back().queue, borders.back().activation);
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
    stage.gradient = stage.own_gradient.size() > 0 ? stage.own_gradient.data() : micro_gradient_.data();
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
  for (std::size_t k = stages_[owner].places; k > 0; --k) tied.places.emplace_back(it.size, memory_);
  if (stages_[s].own_gradient.size() == 0) stages_[s].own_gradient = kernels::Buffer(arena_floats_, memory_);
}

models::Section& StageParts::section(std::size_t s, std::uint64_t number) {
  auto& sections = stages_[s].sections;
  return sections[number % sections.size()];
}

std::span<const float* const> StageParts::inputs_of(std::size_t s, std::uint64_t number,
                                                    const float* const& inputs) {
  if (s > 0) return crossings_[s - 1].values(number);
  return {&inputs, 1};
}

void StageParts::forward(std::size_t s, std::uint64_t number, std::uint64_t draw, const float* parameters,
                         const float* inputs) {
  const auto read = inputs_of(s, number, inputs);
  models::Section& it = section(s, number);
  it.set_draws(draw);
  it.forward(parameters, read);
  stages_[s].intact = number;
  if (!is_last(s)) crossings_[s].put(number, it, read);
}

double StageParts::backward(std::size_t s, std::uint64_t number, std::uint64_t draw, const float* parameters,
                            const float* inputs, const std::int32_t* labels) {
  Stage& stage = stages_[s];
  const auto read = inputs_of(s, number, inputs);
  models::Section& it = section(s, number);
  const bool is_there = stage.intact == number && recomputation_ == Recomputation::except_last;
  if (repeats() && !is_there) {
    it.set_draws(draw + 1);  // as after its forward pass
    it.forward_again(parameters, read);
    stage.intact = number;
  }
  double loss = 0;
  if (is_last(s)) {
    loss_->train(it.output(0, read), labels, it.output_gradient(0), loss_value_.get());
    loss = loss_value_->sum;
  } else {
    crossings_[s].take_gradients(number, it);
  }
  take_shared(s, number);
  it.backward(parameters, read, stage.gradient);
  if (s > 0) crossings_[s - 1].put_gradients(number, it);
  give_shared(s, number);
  return loss;
}

void StageParts::take_shared(std::size_t s, std::uint64_t number) {
  for (const SharedTensor& tied : shared_) {
    if (tied.owner != s) continue;
    const kernels::Buffer& from = tied.places[number % tied.places.size()];
    std::copy_n(from.data(), from.size(), stages_[s].gradient + tied.range.first);
  }
}

void StageParts::give_shared(std::size_t s, std::uint64_t number) {
  for (SharedTensor& tied : shared_) {
    if (tied.user != s) continue;
    kernels::Buffer& to = tied.places[number % tied.places.size()];
    std::copy_n(stages_[s].gradient + tied.range.first, to.size(), to.data());
  }
}

StageMemory StageParts::memory(std::size_t s) const {
  const Stage& stage = stages_[s];
  StageMemory memory;
  for (const models::Section& section : stage.sections) memory.sections += section.memory().total();
  if (!is_last(s)) memory.crossings = crossings_[s].bytes();
  memory.gradients = stage.own_gradient.size() * sizeof(float);
  if (memory.gradients == 0) {
    for (const auto& [begin, end] : stage.ranges) memory.gradients += (end - begin) * sizeof(float);
  }
  return memory;
}

}  // namespace starling::training
