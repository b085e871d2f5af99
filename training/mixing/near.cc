#include "training/mixing/near.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"

namespace starling::training {
namespace {

// The number of the value is a float's exactly, and rounding by chance has bits left.
constexpr float kFinest = 0x1p-20F;  // of the largest value

// The step of a block; negative: its values travel modulo 256.
float step_for(float largest, float reach) {
  const float whole = kernels::int8_steps(largest).step;
  const float step = std::max(reach / 126, kFinest * largest);
  return reach < 0 || step >= whole ? whole : -step;
}

}  // namespace

void encode_near(std::span<const float> values, float reach, std::uint64_t seed, MutableBytes out) {
  STARLING_CHECK(out.size() == encoded_bytes(Payload::int8, values.size()));
  const std::size_t blocks = kernels::int8_blocks(values.size());
  const std::uint32_t chances = kernels::int8_seed(seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i - i % kInt8Block;
    if (i == begin) {
      const std::size_t n = std::min(kInt8Block, values.size() - begin);
      const auto largest = std::bit_cast<float>(largest_magnitude_bits(values.subspan(begin, n)));
      store(out.data() + begin / kInt8Block * sizeof(float), step_for(largest, reach));
    }
    const auto step = load<float>(out.data() + begin / kInt8Block * sizeof(float));
    const double chance = kernels::int8_chance(chances, static_cast<std::uint32_t>(i)) * 0x1p-16;
    const double number = step == 0 ? 0 : std::floor(values[i] / std::fabs(step) + chance);
    // Rounding beyond the end of the range would change the sign of a value that travels whole.
    const double kept =
        step > 0 ? std::clamp(number, -127.0, 127.0) : number - 256 * std::floor(number / 256);
    store(out.data() + blocks * sizeof(float) + i, static_cast<std::uint8_t>(kept < 0 ? kept + 256 : kept));
  }
}

void decode_near(Bytes in, std::size_t floats, std::size_t begin, std::span<const float> near,
                 std::span<float> out) {
  STARLING_CHECK(in.size() == encoded_bytes(Payload::int8, floats) && near.size() == out.size());
  STARLING_CHECK(begin <= floats && out.size() <= floats - begin);
  const std::size_t blocks = kernels::int8_blocks(floats);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = begin + i;
    const auto step = load<float>(in.data() + at / kInt8Block * sizeof(float));
    const double byte = load<std::int8_t>(in.data() + blocks * sizeof(float) + at);
    if (!(step < 0)) {  // whole, or NaN
      out[i] = step * static_cast<float>(byte);
      continue;
    }
    const double cycles = std::nearbyint((static_cast<double>(near[i]) / -step - byte) / 256);
    out[i] = static_cast<float>(static_cast<double>(-step) * (byte + 256 * cycles));
  }
}

}  // namespace starling::training
