// A part's share of a run as nodes that a models::Section computes: convolutions with fewer channels, linear
// layers with fewer units, attention with fewer heads, whose parameters are at their places in the arena.
#pragma once

#include <cstddef>

#include "models/lowering.h"
#include "models/spec.h"
#include "training/pipeline/slices/slice_plan.h"

namespace starling::training {

// `lowered` is that of the plan. The nodes are those of the run's layers, counted from 0, and read input k of
// the run as slice_input_key(k). REQUIRES: the part computes the run.
models::Lowered lower_slice(const models::Plan& plan, const models::Lowered& lowered, const SlicePlan& slices,
                            const SliceRun& run, std::size_t part);
constexpr int slice_input_key(std::size_t k) { return -1 - static_cast<int>(k); }

}  // namespace starling::training
