#include "base/random.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace starling {
namespace {

std::uint64_t splitmix64(std::uint64_t& x) {
  x += 0x9e3779b97f4a7c15;
  std::uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) : seed_(seed) {
  for (auto& word : state_) word = splitmix64(seed);
}

Random Random::split(std::uint64_t purpose) const {
  std::uint64_t x = seed_ ^ 0x5bf0'3635'd1a3'9c47;
  const std::uint64_t a = splitmix64(x);
  x = a ^ purpose;
  return Random(splitmix64(x));
}

std::uint64_t Random::bits() {
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

std::uint64_t Random::below(std::uint64_t bound) {
  STARLING_CHECK(bound > 0);
  const std::uint64_t threshold = -bound % bound;  // 2^64 mod bound: values below it would be drawn too often
  for (;;) {
    const std::uint64_t x = bits();
    if (x >= threshold) return x % bound;
  }
}

double Random::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1.0p-53;
}

double Random::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

double Random::normal() {
  for (;;) {
    const double u = uniform(-1, 1);
    const double v = uniform(-1, 1);
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

double Random::exponential() {
  return -std::log1p(-uniform());
}

}  // namespace starling
