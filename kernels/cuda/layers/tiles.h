// How a launch divides an activation by channels, for all kernels that add the values of a channel or treat
// them alike. An activation has `segments` with some samples each (one segment of all samples, or one per
// sample). A channel of a segment is a line of units, of one or several values, which is cut into `splits`. A
// block has `lanes` channels of one split, and for each of them `members` threads, which take turns at its
// units.
//
// There are two patterns. Rows, [sample][channel][place]: a unit is V neighboring places of one channel, and
// the members of a lane are neighboring threads. Columns, [sample and place][channel]: a unit is a place, V
// neighboring channels are one lane, and the lanes are neighboring threads. In both, neighboring threads read
// neighboring memory.
#pragma once

#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {

// The number of blocks that a device of 132 multiprocessors runs at once, four on each; kernels that need
// many registers declare this (__launch_bounds__).
inline constexpr unsigned kTogether = 4, kBlocks = 132 * kTogether;

struct Tiles {
  unsigned segments, samples, channels, places;  // samples of a segment
  unsigned units, chunk, splits;  // units of a segment's channel, and of each split but the last
  unsigned lanes, members;        // powers of two; at most kThreads together
  unsigned blocks_across;         // blocks for all channels of a split

  unsigned blocks() const { return blocks_across * splits * segments; }
  unsigned threads() const { return lanes * members; }
};

struct Pattern {
  Tiles tiles;
  bool bf16, columns, wide;  // `wide`: V is 16 bytes' values, else 1
};

// Enough blocks to keep a device busy, with at least a few units for each thread; `one_split`: one split.
// `segments` divides the samples.
Pattern make_pattern(bool bf16, bool columns, const Shape& shape, unsigned segments, bool one_split = false);
// For an activation's channels; one segment of all samples, or one for each.
Pattern channel_pattern(const Activation& activation, bool by_sample, bool one_split = false);

// The pattern as a type.
template <class Type, unsigned V, bool columns>
struct TileLines {
  using T = Type;
  static constexpr unsigned kValues = V;
  static constexpr bool kColumns = columns;
  static constexpr unsigned kChannels = columns ? V : 1;  // of a lane
};

// Calls f with a TileLines.
template <class F>
void with_lines(const Pattern& pattern, const F& f) {
  const auto of = [&]<class T>(T) {
    if (pattern.columns) return pattern.wide ? f(TileLines<T, kWide<T>, true>()) : f(TileLines<T, 1, true>());
    return pattern.wide ? f(TileLines<T, kWide<T>, false>()) : f(TileLines<T, 1, false>());
  };
  if (pattern.bf16) return of(Bfloat16());
  return of(float());
}

// The calling thread's part.
template <class L>
struct Share {
  unsigned segment, split, channel;  // `channel`: the first of the lane's kChannels
  unsigned lane, member;
  unsigned begin, end;  // of the split's units; empty if the lane has no channel

  __device__ explicit Share(const Tiles& tiles) {
    lane = L::kColumns ? threadIdx.x % tiles.lanes : threadIdx.x / tiles.members;
    member = L::kColumns ? threadIdx.x / tiles.lanes : threadIdx.x % tiles.members;
    const unsigned part = blockIdx.x / tiles.blocks_across;
    segment = part / tiles.splits;
    split = part % tiles.splits;
    channel = (blockIdx.x % tiles.blocks_across * tiles.lanes + lane) * L::kChannels;
    begin = split * tiles.chunk;
    end = begin + tiles.chunk < tiles.units ? begin + tiles.chunk : tiles.units;
    if (channel >= tiles.channels) end = begin;
  }

  __device__ bool any() const { return begin < end; }
  // Of the lane's first channel, as an index of [segments, channels].
  __device__ unsigned row(const Tiles& tiles) const { return segment * tiles.channels + channel; }

  __device__ unsigned at(const Tiles& tiles, unsigned unit) const {
    if constexpr (L::kColumns) return (segment * tiles.units + unit) * tiles.channels + channel;
    const unsigned per_row = tiles.places / L::kValues, sample = unit / per_row;
    return ((segment * tiles.samples + sample) * tiles.channels + channel) * tiles.places +
           (unit - sample * per_row) * L::kValues;
  }

  // Calls f(offset of a unit's values) for the thread's units. f loads kLoads vectors; if that is one, two
  // units are processed together, so that their loads overlap.
  template <unsigned kLoads = 1, class F>
  __device__ void each(const Tiles& tiles, const F& f) const {
    turns<kLoads>(tiles, [&](unsigned turn) { f(at(tiles, begin + turn)); });
  }
  // In reverse order: a second pass finds in the cache what the first one read last.
  template <unsigned kLoads = 1, class F>
  __device__ void each_backwards(const Tiles& tiles, const F& f) const {
    turns<kLoads>(tiles, [&](unsigned turn) { f(at(tiles, end - 1 - turn)); });
  }

 private:
  template <unsigned kLoads, class F>
  __device__ void turns(const Tiles& tiles, const F& f) const {
    const unsigned count = end - begin;
    unsigned turn = member;
    if constexpr (kLoads == 1) {
      for (; turn + tiles.members < count; turn += 2 * tiles.members) {
        f(turn);
        f(turn + tiles.members);
      }
    }
    for (; turn < count; turn += tiles.members) f(turn);
  }
};

// values[i] = the sum of values[i] over the lane's members, always in the same order. REQUIRES: all threads
// of the block call it.
template <unsigned N, class L>
__device__ void sum_members(const Tiles& tiles, const Share<L>& share, float (&values)[N]) {
  STARLING_SHARED float slots[N][kThreads];
  const unsigned own = share.member * tiles.lanes + share.lane;
  for (unsigned i = 0; i < N; ++i) slots[i][own] = values[i];
  for (unsigned half = tiles.members / 2; half > 0; half /= 2) {
    __syncthreads();
    if (share.member >= half) continue;
    for (unsigned i = 0; i < N; ++i) slots[i][own] += slots[i][own + half * tiles.lanes];
  }
  __syncthreads();
  for (unsigned i = 0; i < N; ++i) values[i] = slots[i][share.lane];
  __syncthreads();
}

// to[channel] = the sum of partial[channel, split], always in the same order.
void add_up_splits(Stream& stream, const Tiles& tiles, const float* partial, float* to);

// The number of the thread's warp, for kernels whose warps work independently, and their blocks.
__device__ inline unsigned warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / kWarp; }
inline dim3 blocks_of_warps(unsigned warps) {
  return dim3((warps + kThreads / kWarp - 1) / (kThreads / kWarp));
}

}  // namespace starling::kernels::cuda
