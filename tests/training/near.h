// Comparison of measured numbers.
#pragma once

#include <algorithm>
#include <cmath>

namespace starling::training {

// Within `absolute`, or within `relative` of the larger one.
inline bool near(double a, double b, double absolute, double relative = 0) {
  return std::abs(a - b) <= std::max(absolute, relative * std::max(std::abs(a), std::abs(b)));
}

}  // namespace starling::training
