// bfloat16: the upper half of a float, with the range of a float and 8 significant bits.
#pragma once

#include <bit>
#include <cstdint>

namespace starling {

struct Bfloat16 {
  std::uint16_t bits = 0;

  // To nearest, ties to even. A NaN stays a NaN.
  static constexpr Bfloat16 round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (all + 0x7fff + ((all >> 16) & 1)) >> 16;
    const bool nan = (all & 0x7fffffff) > 0x7f800000;
    return {static_cast<std::uint16_t>(nan ? 0x7fc0 : rounded)};
  }
  constexpr float value() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

}  // namespace starling
