#include "training/mixing/values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/training/near.h"

namespace starling::training {
TEST_CASE("a value that is not finite or too large is found at any place") {
  REQUIRE(all_finite({}));
  std::vector<float> values(643, std::numeric_limits<float>::max());
  values[3] = -std::numeric_limits<float>::max();
  values[5] = std::numeric_limits<float>::denorm_min();
  values[6] = -0.0f;
  REQUIRE(all_finite(values));
  REQUIRE(!all_acceptable(values));
  std::fill(values.begin(), values.end(), -kLargestMagnitude);
  REQUIRE(all_acceptable(values));
  const std::vector<float> own(values.size(), kLargestMagnitude);
  REQUIRE(measure(values, own).acceptable);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const float bad :
         {kNan, -kNan, kInfinity, -kInfinity, std::numeric_limits<float>::signaling_NaN()}) {
      auto poisoned = values;
      poisoned[i] = bad;
      REQUIRE(!all_finite(poisoned));
      REQUIRE(!all_acceptable(poisoned));
      REQUIRE(!measure(poisoned, own).acceptable);
    }
    auto large = values;
    large[i] = std::nextafter(kLargestMagnitude, kInfinity);
    REQUIRE(all_finite(large));
    REQUIRE(!all_acceptable(large));
    REQUIRE(!measure(large, own).acceptable);
  }
}

TEST_CASE("distances equal those of sums in double, from the smallest chunks to the largest values") {
  Random random(1);
  for (const double size : {1e-12, 1.0, 1e18}) {
    for (const std::size_t n : {0, 1, 15, 16, 255, 256, 257, 8192, 10000}) {
      std::vector<float> theirs(n), own(n);
      double distance = 0, norm = 0;
      for (std::size_t i = 0; i < n; ++i) {
        theirs[i] = static_cast<float>(size * random.uniform(-1, 1));
        own[i] = static_cast<float>(size * random.uniform(-1, 1));
        distance += std::pow(static_cast<double>(theirs[i]) - static_cast<double>(own[i]), 2);
        norm += std::pow(static_cast<double>(own[i]), 2);
      }
      const Measure measured = measure(theirs, own);
      REQUIRE(near(measured.distance_square, distance, 0, 1e-5));
      REQUIRE(near(measured.norm_square, norm, 0, 1e-5));
      REQUIRE(near(measured.distance(), std::sqrt(distance), 0, 1e-5));
    }
  }
  const std::vector<float> most(8192, kLargestMagnitude), least(8192, -kLargestMagnitude);
  REQUIRE(measure(most, least).distance_square == 8192 * std::ldexp(1.0, 122));
}

}  // namespace starling::training
