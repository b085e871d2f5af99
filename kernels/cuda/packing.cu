#include "kernels/cuda/passes.h"

#include "base/bfloat16.h"
#include "kernels/cuda/layers/tiles.h"

namespace starling::kernels::cuda {
namespace {

struct ToBf16 {
  starling::Bfloat16* to;
  __device__ void operator()(unsigned i, float value, float /*per_unit*/) const {
    to[i] = starling::Bfloat16::round(value);
  }
};

struct ToInt8 {
  std::int8_t* to;
  std::uint32_t seed, place;
  __device__ void operator()(unsigned i, float value, float per_unit) const {
    to[i] = to_int8(value, per_unit, int8_chance(seed, place + i));
  }
};

// A warp packs a block of kInt8Block.
template <class Pack>
__global__ void pack_blocks(const float* values, unsigned n, float* largest, Pack pack) {
  constexpr unsigned kEach = kInt8Block / kWarp;
  const unsigned block = warp_number(), lane = threadIdx.x % kWarp;
  float mine[kEach];  // read once: workers change the arena meanwhile
  std::int32_t most = 0;
  for (unsigned k = 0; k < kEach; ++k) {
    const unsigned i = block * kInt8Block + k * kWarp + lane;
    mine[k] = i < n ? values[i] : 0;
    const std::int32_t bits = magnitude_bits(mine[k]);
    most = bits > most ? bits : most;
  }
  for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) {
    const std::int32_t other = shuffle_xor(most, bits);
    most = other > most ? other : most;
  }
  const auto magnitude = std::bit_cast<float>(most);
  if (lane == 0 && block * kInt8Block < n) largest[block] = magnitude;
  const float per_unit = int8_steps(magnitude).per_unit;
  for (unsigned k = 0; k < kEach; ++k) {
    const unsigned i = block * kInt8Block + k * kWarp + lane;
    if (i < n) pack(i, mine[k], per_unit);
  }
}

template <class Pack>
void start(Stream& stream, const float* values, std::size_t n, float* largest, Pack pack) {
  if (n == 0) return;
  launch_together(stream, blocks_of_warps(static_cast<unsigned>(int8_blocks(n))), kThreads, pack_blocks<Pack>,
                  values, static_cast<unsigned>(n), largest, pack);
}

}  // namespace

void pack(Stream& stream, const float* values, std::size_t n, Packing packing, std::uint32_t seed,
          std::uint32_t place, float* largest, void* packed) {
  if (packing == Packing::bf16) {
    start(stream, values, n, largest, ToBf16{static_cast<starling::Bfloat16*>(packed)});
  } else {
    start(stream, values, n, largest, ToInt8{static_cast<std::int8_t*>(packed), seed, place});
  }
}

}  // namespace starling::kernels::cuda
