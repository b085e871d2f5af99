// Dropout, as defined beside kernels::DropoutSpec, in plain loops. Whether a value is kept depends only on
// the seed, the number of draws before, and the value's index in plain order [batch, channel, row, column].
// So every back end keeps the same values, in any format and order, and the backward pass needs no stored
// mask.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "kernels/reference/image.h"

namespace starling::kernels::reference {

// A permutation of the 32-bit words in which every bit of the result depends on every bit of x:
// multiplications and shifts as in the last step of MurmurHash3 (Appleby, 2011).
constexpr std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

struct DropoutDraw {
  std::uint32_t key[2];
  std::uint32_t dropped;  // a fraction, times 2^32

  // `bits`: from key_bits(). The constexpr functions also run on devices.
  constexpr DropoutDraw(std::uint64_t bits, std::uint32_t of_2_32)
      : key{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}, dropped(of_2_32) {}
  DropoutDraw(const DropoutSpec& it, std::uint64_t draws_before)
      : DropoutDraw(key_bits(it.seed, draws_before), dropped_of(it)) {}

  static constexpr std::uint64_t key_bits(std::uint64_t seed, std::uint64_t draws_before) {
    return Random(seed).split(draws_before).bits();
  }
  static std::uint32_t dropped_of(const DropoutSpec& it) {
    return static_cast<std::uint32_t>(std::lround(it.rate * 0x1p32));
  }

  constexpr bool keeps(std::uint32_t index) const { return mix(mix(index ^ key[0]) ^ key[1]) >= dropped; }
};

// Forward with x, backward with dy.
template <class T>
void dropout(const DropoutSpec& it, std::uint64_t draws_before, Images<const T> x, Images<T> y) {
  const DropoutDraw draw(it, draws_before);
  for_each_flat(x.shape, [&](int n, int k) {
    const std::uint32_t index = it.first_draw(x.shape, n) + static_cast<std::uint32_t>(k);
    y.flat(n, k) = draw.keeps(index) ? static_cast<T>(x.flat(n, k) / (1 - static_cast<T>(it.rate))) : T{0};
  });
}

}  // namespace starling::kernels::reference
