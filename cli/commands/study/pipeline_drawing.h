// A pipeline's first micro-batches as lines of text.
#pragma once

#include <cstddef>
#include <string>

#include "training/planner/timing.h"

namespace starling::cli {

inline constexpr std::size_t kDrawingColumns = 100;

// A line for each replica of each stage, with at most kDrawingColumns characters, and one that explains them:
// "stage 2     0>>1>>0<<<<1<<<<" has the forward passes of the micro-batches 0 and 1 and their backward
// passes, as long as they take. Empty if nothing takes any time.
std::string draw_pipeline(const training::PipelineTrace& trace);

}  // namespace starling::cli
