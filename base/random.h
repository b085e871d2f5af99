// Random numbers. A seed gives the same sequence on every platform: the generator is xoshiro256++ (Blackman &
// Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded by splitmix64. The distributions
// are implemented here because the standard's differ between libraries. split() gives each purpose a stream
// of its own, so an additional draw for one purpose does not change another.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

namespace starling {

// The constexpr functions also run on devices.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : seed_(seed), state_() {
    for (auto& word : state_) word = splitmix64(seed);
  }

  // An independent generator for `purpose`. Depends only on this generator's seed, not on its draws so far.
  constexpr Random split(std::uint64_t purpose) const {
    std::uint64_t x = seed_ ^ 0x5bf0'3635'd1a3'9c47;
    const std::uint64_t a = splitmix64(x);
    x = a ^ purpose;
    return Random(splitmix64(x));
  }

  constexpr std::uint64_t bits() {  // 64 uniform bits
    auto& s = state_;
    const std::uint64_t result = std::rotl(s[0] + s[3], 23) + s[0];
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = std::rotl(s[3], 45);
    return result;
  }
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
  static constexpr std::uint64_t splitmix64(std::uint64_t& x) {
    x += 0x9e3779b97f4a7c15;
    std::uint64_t z = x;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace starling
