#include "base/random.h"

#include <cmath>

#include "base/check.h"

namespace starling {

std::uint64_t Random::below(std::uint64_t bound) {
  STARLING_CHECK(bound > 0);
  const std::uint64_t threshold = -bound % bound;  // 2^64 mod bound; smaller values would bias the result
  for (;;) {
    const std::uint64_t x = bits();
    if (x >= threshold) return x % bound;
  }
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }

double Random::normal() {
  for (;;) {
    const double u = uniform(-1, 1);
    const double v = uniform(-1, 1);
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

double Random::exponential() { return -std::log1p(-uniform()); }

}  // namespace starling
