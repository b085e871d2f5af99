// Comparison of a figure that may be unknown.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "tests/catch.h"

namespace starling::topologies {

inline bool near(std::optional<double> value, double expected, double tolerance) {
  UNSCOPED_INFO("value " << (value ? std::to_string(*value) : "none") << ", expected " << expected);
  return value && std::abs(*value - expected) <= tolerance;
}

}  // namespace starling::topologies
