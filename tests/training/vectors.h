// Vectors for tests of replicas: random ones, their distance, and a shard with all samples of a data set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "datasets/dataset.h"

namespace starling::training {

// In [-1, 1).
inline std::vector<float> draw(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

inline std::vector<std::uint32_t> all_of(const datasets::Dataset& data) {
  std::vector<std::uint32_t> shard(data.size());
  std::iota(shard.begin(), shard.end(), 0U);
  return shard;
}

}  // namespace starling::training
