// How an exchange's floats become fewer bytes, value by value: one arithmetic for the host
// (training/exchange/payload.h says what the payloads are, and lays them out) and for devices that pack by
// themselves, so that they make the same bytes. No sum here has a product in it: compilers may round such a
// sum once or twice, as the processor has it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace starling::kernels {

enum class Packing : std::uint8_t { bf16, int8 };

inline constexpr std::size_t kInt8Block = 256;  // floats that share a step
constexpr std::size_t int8_blocks(std::size_t floats) {
  return (floats + kInt8Block - 1) / kInt8Block;
}

// Bytes of so many floats. bf16: of each its upper half. int8: the step of each block, a float; then of each
// value how many steps it is.
constexpr std::size_t packed_bytes(Packing packing, std::size_t floats) {
  return packing == Packing::bf16 ? floats * sizeof(std::uint16_t)
                                  : int8_blocks(floats) * sizeof(float) + floats;
}

// The largest magnitude of a block is 127 steps; a block of zeros, or as good as that, has steps of 0.
struct Int8Steps {
  float step, per_unit;
};
constexpr Int8Steps int8_steps(float largest) {
  const float step = largest / 127;
  if (step < std::numeric_limits<float>::min()) return {0, 0};
  return {step, 1 / step};
}

// The chances of one parcel.
constexpr std::uint32_t int8_seed(std::uint64_t seed) {
  return static_cast<std::uint32_t>(seed ^ (seed >> 32));
}

// Sixteen bits of chance for the value at a place of the parcel: a Weyl sequence, folded and multiplied once.
// It decides how to round, and no more is asked of it.
constexpr std::uint32_t int8_chance(std::uint32_t seed, std::uint32_t place) {
  std::uint32_t x = place * 0x9e3779b9 + seed;
  x ^= x >> 15;
  return (x * 0x7feb352d) >> 16;
}

// floor(value / step + chance / 2^16), and 127 at most, of whole parts of a step (2^16 make one): what can be
// represented is.
constexpr std::int8_t to_int8(float value, float per_unit, std::uint32_t chance) {
  const float parts = value * per_unit * 0x1p16F;
  const float bounded = parts < 127 * 0x1p16F ? parts : 127 * 0x1p16F;  // a NaN is not less
  return static_cast<std::int8_t>((static_cast<std::int32_t>(bounded) + static_cast<std::int32_t>(chance)) >>
                                  16);
}

// Floats without sign are ordered as these bits are, infinity and NaN last.
constexpr std::int32_t magnitude_bits(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}

}  // namespace starling::kernels
