// Attention in bfloat16 on tensor cores (attention.h). A warp has kRows of the block's own vectors. What the
// tensor cores yield, scores, becomes in place what they read next, weights (Dao, "FlashAttention-2", 2023).
// Rotated vectors, weights and their gradients are rounded to bfloat16.
#include <cmath>

#include "kernels/cuda/layers/attention.h"

namespace starling::kernels::cuda {
namespace {

constexpr unsigned kRows = 16, kOwnRows = kTeam / kWarp * kRows;

// Shared memory for vectors of D values, and later for kOwnRows in float32.
template <unsigned D, unsigned Count>
struct alignas(16) VectorRoom {
  static_assert(Count * kSpaced<Bfloat16, D> * sizeof(Bfloat16) >=
                kOwnRows * kSpaced<float, D> * sizeof(float));
  unsigned char at[Count * kSpaced<Bfloat16, D> * sizeof(Bfloat16)];

  __device__ Bfloat16* vectors(unsigned first) {
    return reinterpret_cast<Bfloat16*>(at) + first * kSpaced<Bfloat16, D>;
  }
  __device__ float* sums() { return reinterpret_cast<float*>(at); }
};

// The thread's place in its warp: it has rows line() and line() + 8 of a result, and of each 8 columns those
// at pair() and pair() + 1 (multiply_add() in launch.h).
__device__ unsigned line() { return threadIdx.x % kWarp / 4; }
__device__ unsigned pair() { return threadIdx.x % 4 * 2; }
// The warp's first row of the block's.
__device__ unsigned warp_row() { return threadIdx.x / kWarp * kRows; }

__device__ std::uint32_t word(const Bfloat16* two) { return *reinterpret_cast<const std::uint32_t*>(two); }
__device__ std::uint32_t word(Bfloat16 low, Bfloat16 high) {
  return __bfloat16_as_ushort(low) | static_cast<std::uint32_t>(__bfloat16_as_ushort(high)) << 16;
}
__device__ std::uint32_t word(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return word(two.x, two.y);
}

// products = a b^T for the warp's kRows vectors at `a` and 8 N at `b`.
template <unsigned D, unsigned N>
__device__ void multiply_rows(const Bfloat16* a, const Bfloat16* b, float (&products)[N][4]) {
  constexpr unsigned S = kSpaced<Bfloat16, D>;
  for (auto& some : products) {
    for (float& product : some) product = 0;
  }
  a += line() * S + pair();
  b += line() * S + pair();
  for (unsigned f = 0; f < D; f += 16) {
    const std::uint32_t left[4] = {word(a + f), word(a + 8 * S + f), word(a + f + 8),
                                   word(a + 8 * S + f + 8)};
    for (unsigned n = 0; n < N; ++n) {
      const std::uint32_t right[2] = {word(b + n * 8 * S + f), word(b + n * 8 * S + f + 8)};
      multiply_add(left, right, products[n]);
    }
  }
}

// sums += weights b for weights of 8 N vectors at `b`.
template <unsigned D, unsigned N>
__device__ void add_rows(const float (&weights)[N][4], const Bfloat16* b, float (&sums)[D / 8][4]) {
  constexpr unsigned S = kSpaced<Bfloat16, D>;
  static_assert(N % 2 == 0);
  for (unsigned k = 0; k < N; k += 2) {
    const std::uint32_t left[4] = {word(weights[k][0], weights[k][1]), word(weights[k][2], weights[k][3]),
                                   word(weights[k + 1][0], weights[k + 1][1]),
                                   word(weights[k + 1][2], weights[k + 1][3])};
    const Bfloat16* from = b + (k * 8 + pair()) * S + line();
    for (unsigned n = 0; n < D / 8; ++n, from += 8) {
      const std::uint32_t right[2] = {word(from[0], from[S]), word(from[8 * S], from[9 * S])};
      multiply_add(left, right, sums[n]);
    }
  }
}

// Writes such sums to shared memory, [kOwnRows].
template <unsigned D>
__device__ void spread_rows(const float (&sums)[D / 8][4], float* to) {
  to += (warp_row() + line()) * kSpaced<float, D> + pair();
  for (unsigned n = 0; n < D / 8; ++n) {
    for (unsigned e = 0; e < 4; ++e) to[e / 2 * 8 * kSpaced<float, D> + n * 8 + e % 2] = sums[n][e];
  }
}

// Of the thread's two queries: the largest score so far, and the thread's share of the denominator and of the
// result.
template <unsigned D>
struct SoftmaxRows {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[D / 8][4] = {};

  // Scores of keys from `key` on become weights. The first tile has a key for each query, `query` and the one
  // 8 after it.
  template <unsigned N>
  __device__ void take(const Heads& it, unsigned row, unsigned query, unsigned key, float (&scores)[N][4]) {
    for (unsigned r = 0; r < 2; ++r) {
      const unsigned i = query + 8 * r;
      float most = -INFINITY;
      for (unsigned n = 0; n < N; ++n) {
        for (unsigned e = 0; e < 2; ++e) {
          float& score = scores[n][2 * r + e];
          score = key + n * 8 + pair() + e <= i ? score * it.scale : -INFINITY;
          most = score > most ? score : most;
        }
      }
      for (int bits = 1; bits < 4; bits *= 2) {
        const float other = shuffle_xor(most, bits);
        most = other > most ? other : most;
      }
      const float now = most > largest[r] ? most : largest[r], keep = expf(largest[r] - now);
      largest[r] = now;
      sum[r] *= keep;
      for (auto& some : out) {
        for (unsigned e = 0; e < 2; ++e) some[2 * r + e] *= keep;
      }
      for (unsigned n = 0; n < N; ++n) {
        for (unsigned e = 0; e < 2; ++e) {
          const float weight = expf(scores[n][2 * r + e] - now);
          sum[r] += weight;
          scores[n][2 * r + e] = weight * kept(it, row, i, key + n * 8 + pair() + e);
        }
      }
    }
  }
};

template <unsigned D>
__global__ void __launch_bounds__(kTeam)
    attend_rows(Heads it, const Bfloat16* x, Bfloat16* y, float* denominators) {
  constexpr unsigned J = 32;
  STARLING_SHARED VectorRoom<D, kOwnRows + 2 * J> room;
  Bfloat16 *const queries = room.vectors(0), *const some_keys = room.vectors(kOwnRows),
                  *const some_values = room.vectors(kOwnRows + J);
  const Team<kOwnRows> team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const Bfloat16* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const Bfloat16* values = keys + it.groups * it.size;
  load_vectors<D, kOwnRows>(it, x + team.place(it, it.x_row, team.part * it.size), it.x_row, first,
                            it.rotates(), queries);
  SoftmaxRows<D> softmax;
  const unsigned query = first + warp_row();
  const unsigned end = first + kOwnRows < it.context ? first + kOwnRows : it.context;
  for (unsigned key = 0; key < end; key += J) {
    __syncthreads();
    load_vectors<D, J>(it, keys, it.x_row, key, it.rotates(), some_keys);
    load_vectors<D, J>(it, values, it.x_row, key, false, some_values);
    __syncthreads();
    if (key >= query + kRows) continue;  // behind all of the warp's queries
    float scores[J / 8][4];
    multiply_rows<D>(queries + warp_row() * kSpaced<Bfloat16, D>, some_keys, scores);
    softmax.take(it, row, query + line(), key, scores);
    add_rows<D>(scores, some_values, softmax.out);
  }
  for (unsigned r = 0; r < 2; ++r) {
    const unsigned i = query + line() + 8 * r;
    float sum = softmax.sum[r];
    for (int bits = 1; bits < 4; bits *= 2) sum += shuffle_xor(sum, bits);
    for (auto& some : softmax.out) {
      for (unsigned e = 0; e < 2; ++e) some[2 * r + e] /= sum;
    }
    if (denominators != nullptr && pair() == 0 && i < it.context)
      denominators[row + i] = softmax.largest[r] + logf(sum);
  }
  __syncthreads();
  spread_rows<D>(softmax.out, room.sums());
  __syncthreads();
  store_vectors<D, kOwnRows>(it, room.sums(), first, false, it.y_row,
                             y + team.place(it, it.y_row, team.part * it.size));
}

template <unsigned D>
__global__ void __launch_bounds__(kTeam)
    query_row_gradients(Heads it, const Bfloat16* x, const Bfloat16* dy, Queries saved, Bfloat16* dx) {
  constexpr unsigned J = kOther<D>, N = J / 8, S = kSpaced<Bfloat16, D>;
  STARLING_SHARED VectorRoom<D, 2 * kOwnRows + 2 * J> room;
  Bfloat16 *const queries = room.vectors(0), *const gradients = room.vectors(kOwnRows),
                  *const some_keys = room.vectors(2 * kOwnRows),
                  *const some_values = room.vectors(2 * kOwnRows + J);
  const Team<kOwnRows> team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const std::size_t place = team.place(it, it.x_row, team.part * it.size);
  const Bfloat16* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const Bfloat16* values = keys + it.groups * it.size;
  load_vectors<D, kOwnRows>(it, x + place, it.x_row, first, it.rotates(), queries);
  load_vectors<D, kOwnRows>(it, dy + team.place(it, it.y_row, team.part * it.size), it.y_row, first, false,
                            gradients);
  const unsigned query = first + warp_row();
  const Query mine[2] = {saved.at(it, row, query + line()), saved.at(it, row, query + line() + 8)};
  float sums[D / 8][4] = {};
  const unsigned end = first + kOwnRows < it.context ? first + kOwnRows : it.context;
  for (unsigned key = 0; key < end; key += J) {
    __syncthreads();
    load_vectors<D, J>(it, keys, it.x_row, key, it.rotates(), some_keys);
    load_vectors<D, J>(it, values, it.x_row, key, false, some_values);
    __syncthreads();
    if (key >= query + kRows) continue;  // behind all of the warp's queries
    float scores[N][4], dp[N][4];
    multiply_rows<D>(queries + warp_row() * S, some_keys, scores);
    multiply_rows<D>(gradients + warp_row() * S, some_values, dp);
    for (unsigned n = 0; n < N; ++n) {
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned i = query + line() + e / 2 * 8, j = key + n * 8 + pair() + e % 2;
        const auto [denominator, mean] = mine[e / 2];
        const float p = j <= i ? expf(scores[n][e] * it.scale - denominator) : 0.0F;
        scores[n][e] = p * (kept(it, row, i, j) * dp[n][e] - mean) * it.scale;
      }
    }
    add_rows<D>(scores, some_keys, sums);
  }
  __syncthreads();
  spread_rows<D>(sums, room.sums());
  __syncthreads();
  store_vectors<D, kOwnRows>(it, room.sums(), first, it.rotates(), it.x_row, dx + place);
}

// Of the products of keys and queries, and of values and gradients: the weights as they were used, and the
// gradients of the scores. From key `key` and query `query` on.
template <unsigned N>
__device__ void weights_and_gradients(const Heads& it, const Queries& saved, unsigned row, unsigned key,
                                      unsigned query, float (&scores)[N][4], float (&dp)[N][4]) {
  STARLING_UNROLL
  for (unsigned n = 0; n < N; ++n) {
    STARLING_UNROLL
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned j = key + line() + e / 2 * 8, i = query + n * 8 + pair() + e % 2;
      const auto [denominator, mean] = saved.at(it, row, i);
      const float p = j <= i ? expf(scores[n][e] * it.scale - denominator) : 0.0F,
                  keeps = kept(it, row, i, j);
      scores[n][e] = p * keeps;
      dp[n][e] = p * (keeps * dp[n][e] - mean) * it.scale;
    }
  }
}

// The keys and values of a group, whose gradients are sums over its heads.
template <unsigned D>
__global__ void __launch_bounds__(kTeam)
    key_row_gradients(Heads it, const Bfloat16* x, const Bfloat16* dy, Queries saved, Bfloat16* dx) {
  constexpr unsigned J = kOther<D>, S = kSpaced<Bfloat16, D>;
  STARLING_SHARED VectorRoom<D, 2 * kOwnRows + 2 * J> room;
  Bfloat16 *const keys = room.vectors(0), *const values = room.vectors(kOwnRows),
                  *const some_queries = room.vectors(2 * kOwnRows),
                  *const some_gradients = room.vectors(2 * kOwnRows + J);
  const Team<kOwnRows> team(it, it.groups, false);
  const unsigned first = team.first, heads = it.heads / it.groups, key = first + warp_row();
  const std::size_t key_place = team.place(it, it.x_row, (it.heads + team.part) * it.size);
  const std::size_t value_place = key_place + it.groups * it.size;
  load_vectors<D, kOwnRows>(it, x + key_place, it.x_row, first, it.rotates(), keys);
  load_vectors<D, kOwnRows>(it, x + value_place, it.x_row, first, false, values);
  float key_sums[D / 8][4] = {}, value_sums[D / 8][4] = {};
  for (unsigned head = team.part * heads; head < (team.part + 1) * heads; ++head) {
    const unsigned row = (team.sequence * it.heads + head) * it.context;
    const Bfloat16* queries = x + team.place(it, it.x_row, head * it.size);
    const Bfloat16* gradients = dy + team.place(it, it.y_row, head * it.size);
    for (unsigned query = first; query < it.context; query += J) {
      __syncthreads();
      load_vectors<D, J>(it, queries, it.x_row, query, it.rotates(), some_queries);
      load_vectors<D, J>(it, gradients, it.y_row, query, false, some_gradients);
      __syncthreads();
      if (query + J <= key) continue;  // before all of the warp's keys
      float scores[J / 8][4], dp[J / 8][4];
      multiply_rows<D>(keys + warp_row() * S, some_queries, scores);
      multiply_rows<D>(values + warp_row() * S, some_gradients, dp);
      weights_and_gradients(it, saved, row, key, query, scores, dp);
      add_rows<D>(scores, some_gradients, value_sums);
      add_rows<D>(dp, some_queries, key_sums);
    }
  }
  __syncthreads();
  spread_rows<D>(key_sums, room.sums());
  __syncthreads();
  store_vectors<D, kOwnRows>(it, room.sums(), first, it.rotates(), it.x_row, dx + key_place);
  __syncthreads();
  spread_rows<D>(value_sums, room.sums());
  __syncthreads();
  store_vectors<D, kOwnRows>(it, room.sums(), first, false, it.x_row, dx + value_place);
}

void attend_rows_forward(Stream& stream, const Heads& it, unsigned sequences, const float* x, float* y,
                         float* denominators) {
  with_head_size(it.size, [&]<unsigned D>(std::integral_constant<unsigned, D>) {
    launch_together(stream, Team<kOwnRows>::blocks(it, sequences, it.heads), kTeam, attend_rows<D>, it,
                    values<Bfloat16>(x), values<Bfloat16>(y), denominators);
  });
}

void attend_rows_backward(Stream& stream, const Heads& it, unsigned sequences, const float* x,
                          const float* dy, Queries saved, float* dx) {
  with_head_size(it.size, [&]<unsigned D>(std::integral_constant<unsigned, D>) {
    launch_together(stream, Team<kOwnRows>::blocks(it, sequences, it.heads), kTeam, query_row_gradients<D>,
                    it, values<Bfloat16>(x), values<Bfloat16>(dy), saved, values<Bfloat16>(dx));
    launch_together(stream, Team<kOwnRows>::blocks(it, sequences, it.groups), kTeam, key_row_gradients<D>, it,
                    values<Bfloat16>(x), values<Bfloat16>(dy), saved, values<Bfloat16>(dx));
  });
}

}  // namespace

const AttentionPasses kBfloat16Attention{attend_rows_forward, attend_rows_backward};

}  // namespace starling::kernels::cuda
