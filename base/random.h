// Seeded chance. One seed gives one sequence on every platform: the generator is xoshiro256++ (Blackman &
// Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded through splitmix64, and the bounded
// draws are our own because the standard's distributions differ between libraries. Streams for independent
// purposes are split from one seed, so adding a draw to one purpose never shifts another.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace starling {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  // An independent generator for `purpose`, a function of this generator's seed alone (not of its draws so
  // far).
  Random split(std::uint64_t purpose) const;

  std::uint64_t bits();                      // 64 uniform bits
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound), unbiased. REQUIRES: bound > 0.
  double uniform();                          // uniform in [0, 1), 53 bits
  double uniform(double low, double high);   // uniform in [low, high)
  double normal();                           // mean 0, variance 1 (Marsaglia's polar method)
  double exponential();                      // mean 1
  bool chance(double probability) { return uniform() < probability; }

  // Fisher-Yates.
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace starling
