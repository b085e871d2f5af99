// Comparison of measured numbers, and numbers that are not finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace starling::training {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Within `absolute`, or within `relative` of the larger one.
inline bool near(double a, double b, double absolute, double relative = 0) {
  return std::abs(a - b) <= std::max(absolute, relative * std::max(std::abs(a), std::abs(b)));
}

}  // namespace starling::training
