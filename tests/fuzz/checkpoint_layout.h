// The model of the fuzzed checkpoints: two trained tensors and a statistic.
#pragma once

#include "models/layout.h"

namespace starling::fuzz {

inline models::Layout checkpoint_layout() {
  models::Layout layout;
  layout.append("w", {2, 3});
  layout.append("b", {3});
  models::Tensor statistic;
  statistic.name = "mean";
  statistic.shape = {2};
  statistic.trained = false;
  layout.append(statistic);
  return layout;
}

}  // namespace starling::fuzz
