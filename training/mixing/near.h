// int8 values for a receiver whose own values are near, in the layout of Payload::int8 (Moniqua: Lu and De
// Sa, "Moniqua: modulo quantized communication in decentralized SGD", ICML 2020). A block of 256 values x is
// q = x / step, rounded by chance; what travels is the step and q modulo 256, a byte each. The receiver has
// values y, and of all numbers with that byte it takes the one next to y / step: q itself if x and y are less
// than 127 steps apart. So the step need not be a 127th of the largest value, as in encode(), but only of the
// largest difference, which is what a mix uses. No state is kept for it on either side. The step is stored as
// a negative number; a positive one belongs to a block whose values travel whole.
//
// A block whose values are farther apart gets others that are at most 128 steps off, not arbitrary ones; the
// difference then looks as large as can be, and the next step is larger.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace starling::training {

// The values travel whole, as in encode(), for receivers with any values.
inline constexpr float kUnknownReach = -1;

// Encodes values for receivers whose values differ by less than `reach`, if it is known. A block travels
// whole also if that is not coarser. REQUIRES: as encode() with Payload::int8.
void encode_near(std::span<const float> values, float reach, std::uint64_t seed, MutableBytes out);
// Decodes the values from `begin` on, for the receiver's values `near` of the same places. Whatever the bytes
// are, it reads nothing else; the values may be anything, NaN included. REQUIRES: as decode() with
// Payload::int8; near.size() == out.size().
void decode_near(Bytes in, std::size_t floats, std::size_t begin, std::span<const float> near,
                 std::span<float> out);

}  // namespace starling::training
