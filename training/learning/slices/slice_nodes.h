// A part's share of a run as nodes that a models::Section computes: convolutions with fewer channels, linear
// layers with fewer units, attention with fewer heads. Their parameters are at their places in the arena, or
// in a vector of the part: on a device, if it has several ranges of a layer's units, or if a layer is
// repeated.
#pragma once

#include <cstddef>
#include <vector>

#include "models/lowering.h"
#include "models/spec.h"
#include "training/learning/slices/slice_plan.h"

namespace starling::training {

// Floats of the arena that a part has in its own vector.
struct OwnParameters {
  std::size_t arena, own, count;
  // The backward pass adds to their gradient, which another layer with the same parameters has written.
  bool added = false;
};

struct SliceNodes {
  models::Lowered lowered;
  std::vector<OwnParameters> own{};  // of all parameters of the run; empty: they are in the arena
  std::size_t own_floats = 0;        // of the vector
};

// `lowered` comes from the same plan. The nodes compute the run's layers, counted from 0, and read input k of
// the run as slice_input_key(k). `own`: all parameters are in the part's vector. REQUIRES: the part computes
// the run.
SliceNodes lower_slice(const models::Plan& plan, const models::Lowered& lowered, const SlicePlan& slices,
                       const SliceRun& run, std::size_t part, bool own);
constexpr int slice_input_key(std::size_t k) { return -1 - static_cast<int>(k); }

}  // namespace starling::training
