// Whether a file of tokens has numbers of 16 bits, little-endian, which is all that such files do not say
// about themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace starling::datasets {

// Why these numbers, read with 16 bits, may be others; empty if nothing suggests it:
//
//   - there are fewer than 64;
//   - the numbers at even and at odd places differ in size, as the halves of 32-bit and 64-bit numbers do;
//   - the upper and the lower bytes are distributed alike, as 8-bit numbers are;
//   - the upper bytes vary more than the lower ones, as in big-endian numbers.
std::string doubt_of_width(std::span<const std::uint16_t> numbers);

// Whether every second number, and no other, is 0.
bool is_every_second_zero(std::span<const std::uint16_t> numbers);

}  // namespace starling::datasets
