// What a stage of a pipeline without a flush trains, and how its updates are added to an arena. Every stage
// updates by itself, perhaps on a thread of its own: the floats of the stages do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/arena.h"
#include "training/learning/optimizer_state.h"
#include "training/learning/stages/stage_copy.h"

namespace starling::training {

struct StageFloats {
  std::vector<FloatRange> trained{};     // whole blocks (kernels::kDecayBlock)
  std::vector<FloatRange> statistics{};  // running ones
};

// From the ranges of a stage's tensors, of an arena that begins with `trained` trained floats.
StageFloats stage_floats(std::vector<FloatRange> tensors, std::size_t trained);

// Adds a stage's update number `number` of the stream, from 0, to the arena. `gradient_of(range)` is the
// gradient of these floats; it is called for the trained ranges in their order, then for the statistics.
template <class GradientOf>
void add_update(const StageFloats& stage, models::Arena& arena, GradientOf gradient_of, double rate_factor,
                std::uint64_t number, OptimizerState& optimizer) {
  for (const FloatRange& range : stage.trained) {
    optimizer.apply_part(arena, range.first, gradient_of(range), rate_factor,
                         optimizer.updates() + number + 1);
  }
  for (const FloatRange& range : stage.statistics) arena.add(range.first, gradient_of(range));
}

}  // namespace starling::training
