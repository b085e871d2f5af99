#include "kernels/cuda/layers/tiles.h"

#include <algorithm>
#include <bit>

namespace starling::kernels::cuda {
namespace {

constexpr unsigned kTurnsMin = 4;  // units of a thread, at least, before a channel is split

unsigned divided(unsigned n, unsigned by) { return (n + by - 1) / by; }

// partial: [channels, splits].
__global__ void add_split_sums(unsigned channels, unsigned splits, const float* partial, float* to) {
  const bool real = warp_number() < channels;
  const unsigned channel = real ? warp_number() : channels - 1, lane = threadIdx.x % kWarp;
  float sum = 0;
  for (unsigned split = lane; split < splits; split += kWarp) sum += partial[channel * splits + split];
  sum = warp_sum(sum);
  if (real && lane == 0) to[channel] = sum;
}

}  // namespace

Pattern make_pattern(bool bf16, bool columns, const Shape& shape, unsigned segments, bool one_split) {
  counted(shape.size());
  Tiles tiles{};
  tiles.segments = segments;
  tiles.samples = static_cast<unsigned>(shape.batch) / segments;
  tiles.channels = static_cast<unsigned>(shape.channels);
  tiles.places = static_cast<unsigned>(shape.height) * static_cast<unsigned>(shape.width);
  unsigned values = bf16 ? kWide<Bfloat16> : kWide<float>;
  const bool wide = (columns ? tiles.channels : tiles.places) % values == 0;
  if (!wide) values = 1;
  tiles.units = tiles.samples * tiles.places / (columns ? 1 : values);
  const unsigned lanes = columns ? tiles.channels / values : tiles.channels;
  if (columns) {
    tiles.lanes = std::min(std::bit_ceil(lanes), kWarp);
    tiles.members = std::min(std::bit_ceil(tiles.units), kThreads / tiles.lanes);
  } else {
    const unsigned least = std::min(std::bit_ceil(tiles.units), 8U);
    tiles.members = std::clamp(std::bit_ceil(divided(tiles.units, kTurnsMin)), least, kThreads);
  }
  tiles.lanes = std::min(std::bit_ceil(lanes), kThreads / tiles.members);
  tiles.blocks_across = divided(lanes, tiles.lanes);
  const unsigned most = one_split ? 1 : kBlocks / std::min(tiles.blocks_across * segments, kBlocks);
  const unsigned splits = std::clamp(tiles.units / (tiles.members * kTurnsMin), 1U, most);
  tiles.chunk = divided(divided(tiles.units, splits), tiles.members) * tiles.members;
  tiles.splits = divided(tiles.units, tiles.chunk);
  return {tiles, bf16, columns, wide};
}

Pattern channel_pattern(const Activation& activation, bool by_sample, bool one_split) {
  const Shape& shape = activation.shape;
  // Vectors are columns in either format.
  const bool columns = is_bf16(activation) || shape.height * shape.width == 1;
  return make_pattern(is_bf16(activation), columns, shape,
                      by_sample ? static_cast<unsigned>(shape.batch) : 1U, one_split);
}

void add_up_splits(Stream& stream, const Tiles& tiles, const float* partial, float* to) {
  launch_together(stream, blocks_of_warps(tiles.channels), kThreads, add_split_sums, tiles.channels,
                  tiles.splits, partial, to);
}

}  // namespace starling::kernels::cuda
