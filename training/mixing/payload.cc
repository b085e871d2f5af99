#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "training/mixing/payload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/bfloat16.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/processor.h"
#include "training/mixing/values.h"

namespace starling::training {
namespace {

STARLING_FOR_PROCESSORS void to_bf16(const float* __restrict values, std::uint16_t* __restrict out,
                                     std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = Bfloat16::round(values[i]).bits;
}

STARLING_FOR_PROCESSORS void from_bf16(const std::uint16_t* __restrict in, float* __restrict out,
                                       std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = Bfloat16{in[i]}.value();
}

STARLING_FOR_PROCESSORS void to_int8(const float* __restrict values, float per_unit, std::uint32_t seed,
                                     std::uint32_t first, std::int8_t* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t chance = kernels::int8_chance(seed, first + static_cast<std::uint32_t>(i));
    out[i] = kernels::to_int8(values[i], per_unit, chance);
  }
}

STARLING_FOR_PROCESSORS void from_int8(const std::int8_t* __restrict in, float step, float* __restrict out,
                                       std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = step * static_cast<float>(in[i]);
}

}  // namespace

std::size_t encoded_bytes(Payload payload, std::size_t floats) {
  STARLING_CHECK(is_dense(payload));
  if (payload == Payload::f32) return floats * sizeof(float);
  const auto packing = payload == Payload::bf16 ? kernels::Packing::bf16 : kernels::Packing::int8;
  return kernels::packed_bytes(packing, floats);
}

void encode(Payload payload, std::span<const float> values, std::uint64_t seed, MutableBytes out) {
  STARLING_CHECK(out.size() == encoded_bytes(payload, values.size()));
  if (values.empty()) return;
  if (payload == Payload::f32) {
    std::memcpy(out.data(), values.data(), out.size());
  } else if (payload == Payload::bf16) {
    to_bf16(values.data(), reinterpret_cast<std::uint16_t*>(out.data()), values.size());
  } else {
    std::byte* const scales = out.data();
    auto* const steps =
        reinterpret_cast<std::int8_t*>(scales + kernels::int8_blocks(values.size()) * sizeof(float));
    for (std::size_t begin = 0; begin < values.size(); begin += kInt8Block) {
      const std::size_t n = std::min(kInt8Block, values.size() - begin);
      const auto [step, per_unit] =
          kernels::int8_steps(std::bit_cast<float>(largest_magnitude_bits(values.subspan(begin, n))));
      store(scales + begin / kInt8Block * sizeof(float), step);
      to_int8(values.data() + begin, per_unit, kernels::int8_seed(seed), static_cast<std::uint32_t>(begin),
              steps + begin, n);
    }
  }
}

void decode(Payload payload, Bytes in, std::size_t floats, std::size_t begin, std::span<float> out) {
  STARLING_CHECK(in.size() == encoded_bytes(payload, floats));
  STARLING_CHECK(begin <= floats && out.size() <= floats - begin);
  if (out.empty()) return;
  if (payload == Payload::f32) {
    std::memcpy(out.data(), in.data() + begin * sizeof(float), out.size_bytes());
  } else if (payload == Payload::bf16) {
    from_bf16(reinterpret_cast<const std::uint16_t*>(in.data()) + begin, out.data(), out.size());
  } else {
    const auto* const steps =
        reinterpret_cast<const std::int8_t*>(in.data() + kernels::int8_blocks(floats) * sizeof(float));
    for (std::size_t i = 0; i < out.size();) {
      const std::size_t at = begin + i;
      const std::size_t n = std::min(kInt8Block - at % kInt8Block, out.size() - i);
      const auto step = load<float>(in.data() + at / kInt8Block * sizeof(float));
      from_int8(steps + at, step, out.data() + i, n);
      i += n;
    }
  }
}

std::uint64_t rounding_seed(std::uint64_t seed, const Session& session, std::size_t offset, bool reply) {
  const std::array<std::uint64_t, 4> parts{session.exchange, session.initiator, offset, reply};
  return hash64(std::as_bytes(std::span(parts)), seed);
}

std::span<const float> as_floats(Bytes bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<float> as_floats(MutableBytes bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace starling::training
