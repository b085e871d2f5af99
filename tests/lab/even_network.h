// A network of four layers with equal operations, whose equal stages have times in closed form.
#pragma once

#include <utility>

#include "models/spec.h"
#include "tests/catch.h"

namespace starling::lab {

inline models::Plan even_network() {
  auto plan = models::make_plan(
      {"even", {64, 1, 1}, {models::Linear{64}, models::Linear{64}, models::Linear{64}, models::Linear{64}}});
  REQUIRE(plan.ok());
  return *std::move(plan);
}

}  // namespace starling::lab
