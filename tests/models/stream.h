// The draws of scripts/pytorch_losses.py.
#pragma once

#include <cstdint>

namespace starling::models {

// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  float uniform(double bound) {
    const double unit = static_cast<double>(bits() >> 40) / (1 << 24);
    return static_cast<float>((2 * unit - 1) * bound);
  }

 private:
  std::uint64_t state_;
};

}  // namespace starling::models
