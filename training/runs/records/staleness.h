// How old values were when they were mixed: the number of a peer's own steps between lending a chunk and
// mixing the answer. Counted for each completed exchange that a peer began, by its oldest chunk.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace starling::training {

class Staleness {
 public:
  // 0, 1, 2, 3-4, 5-8, 9-16, ...; the last one holds all larger counts.
  static constexpr std::size_t kBuckets = 16;

  static constexpr std::size_t bucket_of(std::uint64_t steps) {
    if (steps <= 1) return static_cast<std::size_t>(steps);
    return std::min<std::size_t>(kBuckets - 1, 1 + static_cast<std::size_t>(std::bit_width(steps - 1)));
  }
  static std::string label(std::size_t bucket) {
    if (bucket <= 2) return std::to_string(bucket);
    const std::uint64_t last = std::uint64_t{1} << (bucket - 1);
    if (bucket == kBuckets - 1) return std::to_string(last / 2 + 1) + " and more";
    return std::to_string(last / 2 + 1) + "-" + std::to_string(last);
  }

  void count(std::uint64_t steps) { ++counts_[bucket_of(steps)]; }
  Staleness& operator+=(const Staleness& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    return *this;
  }
  // Takes each bucket at its middle; nullopt if nothing was counted.
  std::optional<double> mean() const {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const double last = i <= 1 ? static_cast<double>(i) : static_cast<double>(std::uint64_t{1} << (i - 1));
      const double first = i <= 2 ? last : last / 2 + 1;
      sum += static_cast<double>(counts_[i]) * (first + last) / 2;
      count += static_cast<double>(counts_[i]);
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
  }
  const std::array<std::uint64_t, kBuckets>& counts() const { return counts_; }
  std::array<std::uint64_t, kBuckets>& counts() { return counts_; }
  std::size_t used() const {  // buckets up to the last that holds something
    std::size_t used = kBuckets;
    while (used > 0 && counts_[used - 1] == 0) --used;
    return used;
  }

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
};

}  // namespace starling::training
