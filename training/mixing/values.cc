#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "training/mixing/values.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/processor.h"
#include "kernels/packing.h"

namespace starling::training {
namespace {

// Whether any magnitude's bits are beyond `limit`. Floats without sign are ordered like their bits, infinity
// and NaN last, so this is integer arithmetic (which -ffast-math could not break). The sign bit of the
// difference, which cannot overflow, has the answer.
STARLING_FOR_PROCESSORS bool any_beyond(const float* values, std::size_t n, std::int32_t limit) {
  std::int32_t sign = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sign |= limit - kernels::magnitude_bits(values[i]);
  }
  return sign < 0;
}

STARLING_FOR_PROCESSORS std::int32_t largest_bits(const float* values, std::size_t n) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t bits = kernels::magnitude_bits(values[i]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

constexpr std::int32_t kLargestBits = std::bit_cast<std::int32_t>(kLargestMagnitude);

// Squares are summed in floats, kLanes sums side by side and kRows of them in turn, since an addition waits
// for the one before it; over blocks so short that acceptable values cannot overflow a lane ((2^61)^2 x 16 =
// 2^126); lanes are summed in double. A vector type and not an inner loop over lanes, because that is how GCC
// is sure to keep the lanes in a register.
constexpr std::size_t kLanes = 16, kRows = 2, kBlock = 16 * kRows * kLanes;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using Signs = std::int32_t __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

struct Sums {
  double distance = 0, norm = 0;
  std::int32_t sign = 0;
};

// REQUIRES: n is a multiple of kRows * kLanes.
STARLING_FOR_PROCESSORS void sum_lanes(const float* theirs, const float* own, std::size_t n, Sums* sums) {
  Signs sign{};
  Doubles distances{}, norms{};
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t end = begin + kBlock < n ? begin + kBlock : n;
    Lanes distance[kRows] = {}, norm[kRows] = {};
    for (std::size_t i = begin; i < end; i += kRows * kLanes) {
      for (std::size_t row = 0; row < kRows; ++row) {
        Lanes t, o;
        Signs bits;
        std::memcpy(&t, theirs + i + row * kLanes, sizeof t);
        std::memcpy(&bits, theirs + i + row * kLanes, sizeof bits);
        std::memcpy(&o, own + i + row * kLanes, sizeof o);
        sign |= kLargestBits - (bits & 0x7fffffff);
        const Lanes d = t - o;
        distance[row] += d * d;
        norm[row] += o * o;
      }
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      distances += __builtin_convertvector(distance[row], Doubles);
      norms += __builtin_convertvector(norm[row], Doubles);
    }
  }
  for (std::size_t j = 0; j < kLanes; ++j) {
    sums->distance += distances[j];
    sums->norm += norms[j];
    sums->sign |= sign[j];
  }
}

STARLING_FOR_PROCESSORS void free_half_floats(const float* lent, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = 2 * out[i] - lent[i];
}

STARLING_FOR_PROCESSORS void add_floats(const float* delta, float* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += delta[i];
}

STARLING_FOR_PROCESSORS void mix_floats(const float* theirs, const float* own, float w, float* __restrict x,
                                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += w * (theirs[i] - own[i]);
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return !any_beyond(values.data(), values.size(), 0x7f7fffff);
}

bool all_acceptable(std::span<const float> values) {
  return !any_beyond(values.data(), values.size(), kLargestBits);
}

std::string unacceptable_tensor(const models::Layout& layout, std::span<const float> arena) {
  for (const models::Tensor& tensor : layout.tensors()) {
    const auto values = arena.subspan(tensor.offset, tensor.size);
    if (all_acceptable(values)) continue;
    const float largest = std::bit_cast<float>(largest_magnitude_bits(values));
    if (std::isnan(largest)) return tensor.name + " has NaN";
    std::array<char, 16> number;
    std::snprintf(number.data(), number.size(), "%.3g", largest);
    return tensor.name + " has values up to " + number.data();
  }
  return "";
}

std::int32_t largest_magnitude_bits(std::span<const float> values) {
  return largest_bits(values.data(), values.size());
}

double Measure::distance() const { return std::sqrt(distance_square); }

Measure measure(std::span<const float> theirs, std::span<const float> own) {
  STARLING_CHECK(theirs.size() == own.size());
  Sums sums;
  const std::size_t whole = theirs.size() / (kRows * kLanes) * (kRows * kLanes);
  if (whole > 0) sum_lanes(theirs.data(), own.data(), whole, &sums);
  for (std::size_t i = whole; i < theirs.size(); ++i) {
    sums.sign |= kLargestBits - kernels::magnitude_bits(theirs[i]);
    const double o = static_cast<double>(own[i]), d = static_cast<double>(theirs[i]) - o;
    sums.distance += d * d;
    sums.norm += o * o;
  }
  return {sums.distance, sums.norm, sums.sign >= 0};
}

void free_half(std::span<const float> lent, std::span<float> out) {
  STARLING_CHECK(lent.size() == out.size());
  free_half_floats(lent.data(), out.data(), out.size());
}

void add(std::span<const float> delta, std::span<float> x) {
  STARLING_CHECK(delta.size() == x.size());
  add_floats(delta.data(), x.data(), x.size());
}

void mix(std::span<const float> theirs, std::span<const float> own, float w, std::span<float> x) {
  STARLING_CHECK(theirs.size() == x.size() && own.size() == x.size());
  mix_floats(theirs.data(), own.data(), w, x.data(), x.size());
}

}  // namespace starling::training
