// Equality of computed numbers.
#pragma once

#include <algorithm>
#include <cmath>

namespace starling {

// Within `tolerance`, relative to the larger of `expected` and `scale`.
inline bool near(double actual, double expected, double tolerance, double scale = 1) {
  return std::abs(actual - expected) <= tolerance * std::max(scale, std::abs(expected));
}

}  // namespace starling
