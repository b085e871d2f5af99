// Causal attention with an online softmax (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention",
// NeurIPS 2022). A block has some vectors of one head, its own, in shared memory, and goes through tiles of
// the others that belong to them: a block of queries through the keys up to them, a block of keys through the
// queries from them on. The weights of a tile exist only in registers and shared memory. From the forward to
// the backward pass one float is kept for each query, the logarithm of the softmax's denominator; the weights
// are computed again, once for the gradient of the queries and once for the keys and values, so no sum is
// shared by blocks. Sums are float32.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/draws.h"
#include "kernels/cuda/wide.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cuda {

struct Heads {
  unsigned context, heads, groups, size;
  unsigned x_row, y_row;  // values of a position in x and y
  float scale;
  const float *cosines, *sines;  // [context, size / 2]; null: positions are not rotary
  const Drawn* drawn;            // null: nothing is dropped
  std::uint32_t dropped;
  float factor;                      // 1 / (1 - rate)
  unsigned first_head, other_heads;  // if these are some of the heads of a layer, whose draws they have

  __device__ bool rotates() const { return cosines != nullptr; }
  // Whether heads, and their halves, can be read four values at a time.
  __device__ bool wide() const { return size % 8 == 0; }
};

// What the backward pass reads of a query: the logarithm of its denominator, and the mean of its weights'
// gradients.
struct Query {
  float denominator, mean;
};
struct Queries {
  const float *denominators, *means;  // [sequence, head, position]
  // `row`: the index of the head's first position.
  __device__ Query at(const Heads& it, unsigned row, unsigned i) const {
    if (i >= it.context) return {INFINITY, 0};  // its weights are 0
    return {denominators[row + i], means[row + i]};
  }
};

// Of `sequences` sequences, in float32 and in bfloat16. forward: the logarithms of denominators are kept
// unless `denominators` is null.
struct AttentionPasses {
  void (*forward)(Stream&, const Heads&, unsigned sequences, const float* x, float* y, float* denominators);
  void (*backward)(Stream&, const Heads&, unsigned sequences, const float* x, const float* dy, Queries saved,
                   float* dx);
};
extern const AttentionPasses kFloatAttention;     // attention_f32.cu
extern const AttentionPasses kBfloat16Attention;  // attention_bf16.cu: on tensor cores

inline constexpr unsigned kMostHead = 128;
inline constexpr unsigned kTeam = 128;  // threads of a block

// Calls f(the size of a head, rounded up to 16, 32, 64 or 128, as a type).
template <class F>
void with_head_size(unsigned size, const F& f) {
  if (size <= 16) return f(std::integral_constant<unsigned, 16>());
  if (size <= 32) return f(std::integral_constant<unsigned, 32>());
  if (size <= 64) return f(std::integral_constant<unsigned, 64>());
  f(std::integral_constant<unsigned, kMostHead>());
}

// D is the rounded size of a head; the rest is 0. Others in a tile, so that all fits in the 48 KiB of shared
// memory.
template <unsigned D>
inline constexpr unsigned kOther = D > 64 ? 16 : 32;

// The distance of vectors of N values in shared memory, so that neighboring ones are in different banks.
template <class S, unsigned N>
inline constexpr unsigned kSpaced = N + 16 / sizeof(S);

// What a block computes: Own positions, from `first` on, of one of `parts` heads or groups.
template <unsigned Own>
struct Team {
  unsigned sequence, part, first;

  // The blocks with the most work start first: `last_first` if those are the last positions.
  __device__ Team(const Heads& it, unsigned parts, bool last_first) {
    const unsigned tiles = (it.context + Own - 1) / Own, each = gridDim.x / tiles;
    const unsigned tile = blockIdx.x / each, rest = blockIdx.x % each;
    first = (last_first ? tiles - 1 - tile : tile) * Own;
    sequence = rest / parts;
    part = rest % parts;
  }
  static unsigned blocks(const Heads& it, unsigned sequences, unsigned parts) {
    return sequences * parts * ((it.context + Own - 1) / Own);
  }

  // Where a part of the sequence's first vector begins, for `row` values each, `at` of them before it.
  __device__ std::size_t place(const Heads& it, unsigned row, unsigned at) const {
    return static_cast<std::size_t>(sequence) * it.context * row + at;
  }
};

// Rotates V neighboring values of a vector, from f on, by its position, with those that are paired with them;
// `direction` -1: back.
template <unsigned V>
__device__ void turn(const Heads& it, unsigned position, unsigned f, const float (&partners)[V],
                     float direction, float (&values)[V]) {
  const unsigned half = it.size / 2, at = position * half + (f < half ? f : f - half);
  float cosines[V], sines[V];
  load<V>(it.cosines + at, cosines);
  load<V>(it.sines + at, sines);
  const float sign = f < half ? -direction : direction;
  for (unsigned v = 0; v < V; ++v) values[v] = values[v] * cosines[v] + sign * partners[v] * sines[v];
}
__device__ inline unsigned partner_of(const Heads& it, unsigned f) {
  return f < it.size / 2 ? f + it.size / 2 : f - it.size / 2;
}

template <unsigned D, unsigned Rows, unsigned V, class T, class S>
__device__ void load_vectors_by(const Heads& it, const T* from, unsigned row, unsigned first, bool turns,
                                S* to) {
  for (unsigned index = threadIdx.x; index < Rows * (D / V); index += kTeam) {
    const unsigned i = index / (D / V), f = index % (D / V) * V, position = first + i;
    float values[V] = {};
    if (position < it.context && f < it.size) {
      const T* vector = from + static_cast<std::size_t>(position) * row;
      load<V>(vector + f, values);
      if (turns) {
        float partners[V];
        load<V>(vector + partner_of(it, f), partners);
        turn<V>(it, position, f, partners, 1, values);
      }
    }
    store<V>(values, to + i * kSpaced<S, D> + f);
  }
}
// Copies `Rows` vectors from position `first` on to shared memory, rotated if `turns`. `from` is the vector
// of position 0; zeros follow the last position and the last value.
template <unsigned D, unsigned Rows, class T, class S>
__device__ void load_vectors(const Heads& it, const T* from, unsigned row, unsigned first, bool turns,
                             S* to) {
  if (it.wide()) return load_vectors_by<D, Rows, 4>(it, from, row, first, turns, to);
  load_vectors_by<D, Rows, 1>(it, from, row, first, turns, to);
}

template <unsigned D, unsigned Rows, unsigned V, class T>
__device__ void store_vectors_by(const Heads& it, const float* from, unsigned first, bool turns, unsigned row,
                                 T* to) {
  for (unsigned index = threadIdx.x; index < Rows * (D / V); index += kTeam) {
    const unsigned i = index / (D / V), f = index % (D / V) * V, position = first + i;
    if (position >= it.context || f >= it.size) continue;
    float values[V];
    load<V>(from + i * kSpaced<float, D> + f, values);
    if (turns) {
      float partners[V];
      load<V>(from + i * kSpaced<float, D> + partner_of(it, f), partners);
      turn<V>(it, position, f, partners, -1, values);
    }
    store<V>(values, to + static_cast<std::size_t>(position) * row + f);
  }
}
// Copies `Rows` vectors from shared memory, rotated back if `turns`.
template <unsigned D, unsigned Rows, class T>
__device__ void store_vectors(const Heads& it, const float* from, unsigned first, bool turns, unsigned row,
                              T* to) {
  if (it.wide()) return store_vectors_by<D, Rows, 4>(it, from, first, turns, row, to);
  store_vectors_by<D, Rows, 1>(it, from, first, turns, row, to);
}

// By what dropout multiplies the weight of query i and key j; `row`: the index of the head's first row in
// [sequence, head, position].
__device__ inline float kept(const Heads& it, unsigned row, unsigned i, unsigned j) {
  if (it.drawn == nullptr) return 1;
  if (it.other_heads > 0) row += (row / it.context / it.heads * it.other_heads + it.first_head) * it.context;
  return reference::DropoutDraw(it.drawn->bits, it.dropped).keeps((row + i) * it.context + j) ? it.factor
                                                                                              : 0.0F;
}

}  // namespace starling::kernels::cuda
