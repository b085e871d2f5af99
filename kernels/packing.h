// Packs an exchange's floats into fewer bytes, value by value. The host (training/mixing/payload.h, which
// defines the payloads) and devices use the same arithmetic, so they produce the same bytes. No sum here
// contains a product, because processors may round such a sum once or twice.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace starling::kernels {

enum class Packing : std::uint8_t { bf16, int8 };

inline constexpr std::size_t kInt8Block = 256;  // floats with the same step
constexpr std::size_t int8_blocks(std::size_t floats) { return (floats + kInt8Block - 1) / kInt8Block; }

// The packed size. bf16: the upper half of each float. int8: the step of each block, a float; then for each
// value its number of steps.
constexpr std::size_t packed_bytes(Packing packing, std::size_t floats) {
  return packing == Packing::bf16 ? floats * sizeof(std::uint16_t)
                                  : int8_blocks(floats) * sizeof(float) + floats;
}

// The largest magnitude of a block is 127 steps. If all values are (nearly) zero, the step is 0.
struct Int8Steps {
  float step, per_unit;
};
constexpr Int8Steps int8_steps(float largest) {
  const float step = largest / 127;
  if (step < std::numeric_limits<float>::min()) return {0, 0};
  return {step, 1 / step};
}

// The seed for one parcel.
constexpr std::uint32_t int8_seed(std::uint64_t seed) {
  return static_cast<std::uint32_t>(seed ^ (seed >> 32));
}

// Sixteen random bits for rounding the value at a place of the parcel: a Weyl sequence, folded and multiplied
// once.
constexpr std::uint32_t int8_chance(std::uint32_t seed, std::uint32_t place) {
  std::uint32_t x = place * 0x9e3779b9 + seed;
  x ^= x >> 15;
  return (x * 0x7feb352d) >> 16;
}

// floor(value / step + chance / 2^16), at most 127. The arithmetic is in units of 2^-16 steps, so
// representable values stay exact.
constexpr std::int8_t to_int8(float value, float per_unit, std::uint32_t chance) {
  const float parts = value * per_unit * 0x1p16F;
  const float bounded = parts < 127 * 0x1p16F ? parts : 127 * 0x1p16F;  // also for a NaN
  return static_cast<std::int8_t>((static_cast<std::int32_t>(bounded) + static_cast<std::int32_t>(chance)) >>
                                  16);
}

// The order of floats without sign as integers; infinity and NaN are last.
constexpr std::int32_t magnitude_bits(float value) { return std::bit_cast<std::int32_t>(value) & 0x7fffffff; }

}  // namespace starling::kernels
