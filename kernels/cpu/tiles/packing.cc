#include "kernels/cpu/tiles/packing.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms in GCC 12's own avx512fintrin.h
#endif
#include <immintrin.h>

#define STARLING_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define STARLING_WIDE_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"), always_inline)) inline

namespace starling::kernels::cpu::tiles {
namespace {

STARLING_WIDE_INLINE __m512i widen(__m256i halves) { return _mm512_cvtepu16_epi32(halves); }
// The values of each column of two rows as one word, the first row's in the lower half.
STARLING_WIDE_INLINE __m512i pair(__m256i first, __m256i second) {
  return _mm512_or_si512(widen(first), _mm512_slli_epi32(widen(second), 16));
}
STARLING_WIDE_INLINE __m256i rounded(__m512 values) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values));
}
// A bit for each of the first `count` of 16.
STARLING_WIDE_INLINE __mmask16 first_bits(int count) {
  return static_cast<__mmask16>(count < 16 ? (1U << count) - 1 : 0xffff);
}

// The values of two neighboring images in the channels of `mask`, as words; 0 for missing images.
STARLING_WIDE_INLINE __m512i image_pair(const Bfloat16* column, int image, int images, std::ptrdiff_t stride,
                                        __mmask16 mask) {
  const Bfloat16* first = column + image * stride;
  return pair(_mm256_maskz_loadu_epi16(image < images ? mask : 0, first),
              _mm256_maskz_loadu_epi16(image + 1 < images ? mask : 0, first + stride));
}

// Transposes words [16][16].
STARLING_WIDE_INLINE void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Now r[4 g + c] has, in its 128-bit lane l, rows 4 g to 4 g + 3 of column 4 l + c.
#pragma GCC unroll 16
  for (int c = 0; c < 4; ++c) {
    const __m512i even = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88),
                  odd = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    const __m512i even2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88),
                  odd2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(even, even2, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    t[4 + c] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

}  // namespace

STARLING_WIDE void pack_weights(const WeightOrder& order, const float* weight, Bfloat16* out) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i index = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(order.output_stride)));
  const __m512 zero = _mm512_setzero_ps();
  for (int output = 0; output < order.outputs; output += 16) {
    const __mmask16 mask = first_bits(order.outputs - output);
    Bfloat16* tile = out + output / kBlock * order.block_values() + output % kBlock / kSide * kValues;
    for (int step = 0; step < order.steps(); ++step) {
      for (int row = 0; row < order.depth() / 2; ++row) {
        const int input = order.first_input(step) + 2 * row;
        const float* from = weight + output * order.output_stride + input * order.input_stride;
        // Both rows of a pair were in the step before, or neither: depth and inputs are even.
        const __mmask16 wanted = input < step * order.depth() ? 0 : mask;
        for (int tap = 0; tap < order.taps; ++tap) {
          const __m512 first = _mm512_mask_i32gather_ps(zero, wanted, index, from + tap, 4);
          const __m512 second =
              _mm512_mask_i32gather_ps(zero, wanted, index, from + order.input_stride + tap, 4);
          Bfloat16* to = tile + tap * order.tap_values() + step * order.step_values() + row * 32;
          _mm512_storeu_si512(to, pair(rounded(first), rounded(second)));
        }
      }
    }
  }
}

STARLING_WIDE void lanes_to_stack(const StackSize& size, const float* lanes, Bfloat16* stack) {
  const std::ptrdiff_t channel_step = std::ptrdiff_t{size.positions} * 16;
  for (int first = 0; first < size.batch; first += 16, lanes += size.channels * channel_step) {
    const int images = size.batch - first < 16 ? size.batch - first : 16;
    for (int position = 0; position < size.positions; ++position) {
      for (int channel = 0; channel < size.channels; channel += 16) {
        const int channels = size.channels - channel < 16 ? size.channels - channel : 16;
        const float* from = lanes + channel * channel_step + std::ptrdiff_t{position} * 16;
        __m512i rows[16];
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) {
          rows[row] = row < channels ? _mm512_loadu_si512(from + row * channel_step) : _mm512_setzero_si512();
        }
        transpose(rows);
        const __mmask16 mask = first_bits(channels);
        Bfloat16* to = stack + (std::ptrdiff_t{position} * size.batch + first) * size.channels + channel;
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) {
          if (row < images)
            _mm256_mask_storeu_epi16(to + std::ptrdiff_t{row} * size.channels, mask,
                                     rounded(_mm512_castsi512_ps(rows[row])));
        }
      }
    }
  }
}

STARLING_WIDE void stack_to_lanes(const StackSize& size, const Bfloat16* stack, float* lanes) {
  const std::ptrdiff_t channel_step = std::ptrdiff_t{size.positions} * 16;
  for (int first = 0; first < size.batch; first += 16, lanes += size.channels * channel_step) {
    const int images = size.batch - first < 16 ? size.batch - first : 16;
    for (int position = 0; position < size.positions; ++position) {
      for (int channel = 0; channel < size.channels; channel += 16) {
        const int channels = size.channels - channel < 16 ? size.channels - channel : 16;
        const __mmask16 mask = first_bits(channels);
        const Bfloat16* from =
            stack + (std::ptrdiff_t{position} * size.batch + first) * size.channels + channel;
        __m512i rows[16];
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) {
          const __m256i halves =
              row < images ? _mm256_maskz_loadu_epi16(mask, from + std::ptrdiff_t{row} * size.channels)
                           : _mm256_setzero_si256();
          rows[row] = _mm512_slli_epi32(widen(halves), 16);
        }
        transpose(rows);
        float* to = lanes + channel * channel_step + std::ptrdiff_t{position} * 16;
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) {
          if (row < channels) _mm512_storeu_si512(to + row * channel_step, rows[row]);
        }
      }
    }
  }
}

// Packs tile after tile: words of two neighboring images, [pair][channel] or, transposed, [channel][pair].
template <bool Transposed>
STARLING_WIDE void pack_stack(const StackTiles& tiles, const Bfloat16* stack, Bfloat16* out) {
  for (int position = 0; position < tiles.positions; ++position) {
    for (int first = 0; first < tiles.batch; first += tiles.depth) {
      const int left = tiles.batch - first, images = left < tiles.depth ? left : tiles.depth;
      const Bfloat16* from = stack + (std::ptrdiff_t{position} * tiles.batch + first) * tiles.channels;
      for (int channel = 0; channel < tiles.channels; channel += kSide, out += kValues) {
        const __mmask16 mask = first_bits(tiles.channels - channel);
        __m512i words[16];
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) {
          words[row] = image_pair(from + channel, 2 * row, images, tiles.channels, mask);
        }
        if constexpr (Transposed) transpose(words);
#pragma GCC unroll 16
        for (int row = 0; row < 16; ++row) _mm512_storeu_si512(out + row * 32, words[row]);
      }
    }
  }
}

void transpose_stack(const StackTiles& tiles, const Bfloat16* stack, Bfloat16* out) {
  pack_stack<true>(tiles, stack, out);
}

void interleave_stack(const StackTiles& tiles, const Bfloat16* stack, Bfloat16* out) {
  pack_stack<false>(tiles, stack, out);
}

STARLING_WIDE void round_rows(const float* sums, int rows, int columns, const float* bias, bool relu,
                              Bfloat16* out, std::ptrdiff_t out_row) {
  const __mmask16 mask0 = first_bits(columns), mask1 = first_bits(columns > 16 ? columns - 16 : 0);
  const __m512 zero = _mm512_setzero_ps();
  const __m512 bias0 = bias != nullptr ? _mm512_maskz_loadu_ps(mask0, bias) : zero;
  const __m512 bias1 = bias != nullptr && columns > 16 ? _mm512_maskz_loadu_ps(mask1, bias + 16) : zero;
  const __m512 least = relu ? zero : _mm512_set1_ps(-__builtin_inff());
  for (int row = 0; row < rows; ++row, sums += 32, out += out_row) {
    const __m512 first = _mm512_max_ps(least, _mm512_add_ps(_mm512_loadu_ps(sums), bias0));
    _mm256_mask_storeu_epi16(out, mask0, rounded(first));
    if (columns <= 16) continue;
    const __m512 second = _mm512_max_ps(least, _mm512_add_ps(_mm512_loadu_ps(sums + 16), bias1));
    _mm256_mask_storeu_epi16(out + 16, mask1, rounded(second));
  }
}

STARLING_WIDE void spread_taps(const float* sums, int taps, int rows, int columns, float* out,
                               std::ptrdiff_t out_row) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i index = _mm512_mullo_epi32(lane, _mm512_set1_epi32(taps));
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; column += 16) {
      const __mmask16 mask = first_bits(columns - column);
      float* to = out + row * out_row + std::ptrdiff_t{column} * taps;
      for (int tap = 0; tap < taps; ++tap) {
        const __m512 values = _mm512_loadu_ps(sums + (std::ptrdiff_t{tap} * 32 + row) * 32 + column);
        if (taps == 1) {
          _mm512_mask_storeu_ps(to, mask, values);
        } else {
          _mm512_mask_i32scatter_ps(to + tap, mask, index, values, 4);
        }
      }
    }
  }
}

}  // namespace starling::kernels::cpu::tiles

#else

namespace starling::kernels::cpu::tiles {

void pack_weights(const WeightOrder&, const float*, Bfloat16*) {}
void lanes_to_stack(const StackSize&, const float*, Bfloat16*) {}
void stack_to_lanes(const StackSize&, const Bfloat16*, float*) {}
void transpose_stack(const StackTiles&, const Bfloat16*, Bfloat16*) {}
void interleave_stack(const StackTiles&, const Bfloat16*, Bfloat16*) {}
void round_rows(const float*, int, int, const float*, bool, Bfloat16*, std::ptrdiff_t) {}
void spread_taps(const float*, int, int, int, float*, std::ptrdiff_t) {}

}  // namespace starling::kernels::cpu::tiles

#endif
