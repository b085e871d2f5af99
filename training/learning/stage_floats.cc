#include "training/learning/stage_floats.h"

#include <algorithm>
#include <utility>

#include "kernels/operation.h"

namespace starling::training {

StageFloats stage_floats(std::vector<FloatRange> tensors, std::size_t trained) {
  constexpr std::size_t kBlock = kernels::kDecayBlock;
  std::ranges::sort(tensors);
  StageFloats stage;
  for (const auto& [begin, end] : tensors) {
    if (begin >= trained) {
      stage.statistics.emplace_back(begin, end);
      continue;
    }
    const std::size_t whole = (end + kBlock - 1) / kBlock * kBlock;
    if (!stage.trained.empty() && stage.trained.back().second == begin) {
      stage.trained.back().second = whole;
    } else {
      stage.trained.emplace_back(begin, whole);
    }
  }
  return stage;
}

}  // namespace starling::training
