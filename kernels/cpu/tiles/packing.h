// Conversions between the memory orders of layers and of tiles. All of them need a processor with tiles.
#pragma once

#include <cstddef>

#include "base/bfloat16.h"
#include "kernels/cpu/tiles/tiles.h"

namespace starling::kernels::cpu::tiles {

// Weights as B: tiles for `outputs` columns (16 each) and `inputs` rows, for every tap. Value (i, o, tap) is
// weight[i input_stride + o output_stride + tap]. Rows are in steps of a tile's depth; the last step begins
// early enough to be full and has 0 for rows of the step before.
struct WeightOrder {
  int inputs = 2, outputs = 0;  // inputs: even
  int taps = 0;
  std::ptrdiff_t input_stride = 0, output_stride = 0;

  int depth() const { return inputs < kDepth ? inputs : kDepth; }
  int steps() const { return (inputs + depth() - 1) / depth(); }
  int first_input(int step) const { return step + 1 < steps() ? step * depth() : inputs - depth(); }
  int blocks() const { return (outputs + kBlock - 1) / kBlock; }
  std::ptrdiff_t step_values() const { return 2 * kValues; }
  std::ptrdiff_t tap_values() const { return steps() * step_values(); }
  std::ptrdiff_t block_values() const { return taps * tap_values(); }
  std::ptrdiff_t values() const { return blocks() * block_values(); }
};
// out[block][tap][step][tile of the block][depth / 2][output][2 inputs].
void pack_weights(const WeightOrder& order, const float* weight, Bfloat16* out);

struct StackSize {
  int positions, batch, channels;
};
// From lanes (16 of them, kernels/cpu/lanes), [image / 16][channel][position][image], to stacks (stack.h),
// and back. Unused lanes become 0.
void lanes_to_stack(const StackSize& size, const float* lanes, Bfloat16* stack);
void stack_to_lanes(const StackSize& size, const Bfloat16* stack, float* lanes);

// A stack's tiles for sums over images: 16 channels and `depth` images each, in chunks of `depth` images;
// missing channels and images are 0.
struct StackTiles {
  int positions = 0, batch = 0, channels = 0;
  int depth = kDepth;  // or less, even

  int chunks() const { return (batch + depth - 1) / depth; }
  std::ptrdiff_t chunk_values() const { return std::ptrdiff_t{channels + kSide - 1} / kSide * kValues; }
  std::ptrdiff_t position_values() const { return chunks() * chunk_values(); }
  std::ptrdiff_t values() const { return positions * position_values(); }
};
// As A: out[position][chunk][channels / 16][channel][image].
void transpose_stack(const StackTiles& tiles, const Bfloat16* stack, Bfloat16* out);
// As B: out[position][chunk][channels / 16][depth / 2][channel][2 images].
void interleave_stack(const StackTiles& tiles, const Bfloat16* stack, Bfloat16* out);

// Rounds `rows` rows of `columns` (up to 32) sums, 32 floats apart, + bias (or null), or max(0, .) of that.
void round_rows(const float* sums, int rows, int columns, const float* bias, bool relu, Bfloat16* out,
                std::ptrdiff_t out_row);

// Copies rows x columns of the sums [tap][32][32] to out[row out_row + column taps + tap].
void spread_taps(const float* sums, int taps, int rows, int columns, float* out, std::ptrdiff_t out_row);

}  // namespace starling::kernels::cpu::tiles
