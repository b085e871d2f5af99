// Attention in float32 (attention.h).
#include <cmath>

#include "kernels/cuda/layers/attention.h"

namespace starling::kernels::cuda {
namespace {

// Each thread computes with kEach own vectors, and kAcross threads share these.
constexpr unsigned kAcross = 16, kEach = 4, kOwn = kTeam / kAcross * kEach;

template <unsigned Rows, unsigned N>
struct alignas(16) SharedVectors {
  float at[Rows * kSpaced<float, N>];
};

// The thread's first own vector, and its place among those that share it.
__device__ unsigned own() { return threadIdx.x / kAcross * kEach; }
__device__ unsigned across() { return threadIdx.x % kAcross; }

// products[r][c] = a[own() + r] . b[across() + c kAcross]
template <unsigned D, unsigned N>
__device__ void multiply_vectors(const float* a, const float* b, float (&products)[kEach][N]) {
  for (auto& row : products) {
    for (float& product : row) product = 0;
  }
  for (unsigned f = 0; f < D; f += 4) {
    float mine[kEach][4], other[4];
    for (unsigned r = 0; r < kEach; ++r) load<4>(a + (own() + r) * kSpaced<float, D> + f, mine[r]);
    for (unsigned c = 0; c < N; ++c) {
      load<4>(b + (across() + c * kAcross) * kSpaced<float, D> + f, other);
      for (unsigned r = 0; r < kEach; ++r) {
        for (unsigned v = 0; v < 4; ++v) products[r][c] += mine[r][v] * other[v];
      }
    }
  }
}

// Of kEach own vectors of D values each thread has D / kAcross values, in runs of neighbors.
template <unsigned D>
constexpr unsigned kValuesOf = D / kAcross;
template <unsigned D>
constexpr unsigned kRun = kValuesOf<D> < 4 ? kValuesOf<D> : 4;

// sums[own] += the sum over j < J of weights[own, j] b[j]
template <unsigned D, unsigned J>
__device__ void add_vectors(const float* weights, const float* b, float (&sums)[kEach][kValuesOf<D>]) {
  constexpr unsigned R = kRun<D>;
  for (unsigned j = 0; j < J; j += 4) {
    float factors[kEach][4];
    for (unsigned r = 0; r < kEach; ++r) load<4>(weights + (own() + r) * kSpaced<float, J> + j, factors[r]);
    for (unsigned v = 0; v < 4; ++v) {
      for (unsigned run = 0; run < kValuesOf<D>; run += R) {
        float values[R];
        load<R>(b + (j + v) * kSpaced<float, D> + run * kAcross + across() * R, values);
        for (unsigned r = 0; r < kEach; ++r) {
          for (unsigned k = 0; k < R; ++k) sums[r][run + k] += factors[r][v] * values[k];
        }
      }
    }
  }
}

// Writes such sums to shared memory.
template <unsigned D>
__device__ void spread(const float (&sums)[kEach][kValuesOf<D>], float* to) {
  constexpr unsigned R = kRun<D>;
  for (unsigned r = 0; r < kEach; ++r) {
    for (unsigned run = 0; run < kValuesOf<D>; run += R) {
      for (unsigned k = 0; k < R; ++k)
        to[(own() + r) * kSpaced<float, D> + run * kAcross + across() * R + k] = sums[r][run + k];
    }
  }
}

// weights[own() + r, across() + c kAcross] = values[r][c]
template <unsigned J, unsigned N>
__device__ void place_weights(const float (&values)[kEach][N], float* weights) {
  for (unsigned r = 0; r < kEach; ++r) {
    for (unsigned c = 0; c < N; ++c)
      weights[(own() + r) * kSpaced<float, J> + across() + c * kAcross] = values[r][c];
  }
}

// Over the threads that share own vectors.
__device__ float sum_across(float value) {
  for (int bits = static_cast<int>(kAcross) / 2; bits > 0; bits /= 2) value += shuffle_xor(value, bits);
  return value;
}
__device__ float largest_across(float value) {
  for (int bits = static_cast<int>(kAcross) / 2; bits > 0; bits /= 2) {
    const float other = shuffle_xor(value, bits);
    value = other > value ? other : value;
  }
  return value;
}

// Of kEach queries: the largest score so far, and the thread's share of the denominator and of the result.
template <unsigned D>
struct Softmax {
  float largest[kEach], sum[kEach], out[kEach][kValuesOf<D>];

  __device__ Softmax() {
    for (unsigned r = 0; r < kEach; ++r) {
      largest[r] = -INFINITY;
      sum[r] = 0;
      for (float& value : out[r]) value = 0;
    }
  }
  // Scores of keys from `key` on become weights. The first tile has a key for each query.
  template <unsigned N>
  __device__ void take(const Heads& it, unsigned row, unsigned first, unsigned key,
                       float (&scores)[kEach][N]) {
    for (unsigned r = 0; r < kEach; ++r) {
      const unsigned i = first + own() + r;
      float most = -INFINITY;
      for (unsigned c = 0; c < N; ++c) {
        const unsigned j = key + across() + c * kAcross;
        scores[r][c] = j <= i ? scores[r][c] * it.scale : -INFINITY;
        most = scores[r][c] > most ? scores[r][c] : most;
      }
      most = largest_across(most);
      const float now = most > largest[r] ? most : largest[r], keep = expf(largest[r] - now);
      largest[r] = now;
      sum[r] *= keep;
      for (float& value : out[r]) value *= keep;
      for (unsigned c = 0; c < N; ++c) {
        const float weight = expf(scores[r][c] - now);
        sum[r] += weight;
        scores[r][c] = weight * kept(it, row, i, key + across() + c * kAcross);
      }
    }
  }
};

// denominators: the logarithms, [sequence, head, position]; may be null.
template <unsigned D>
__global__ void __launch_bounds__(kTeam) attend(Heads it, const float* x, float* y, float* denominators) {
  constexpr unsigned J = kOther<D>;
  STARLING_SHARED SharedVectors<kOwn, D> queries;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team<kOwn> team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const float* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const float* values = keys + it.groups * it.size;
  load_vectors<D, kOwn>(it, x + team.place(it, it.x_row, team.part * it.size), it.x_row, first, it.rotates(),
                        queries.at);
  Softmax<D> softmax;
  const unsigned end = first + kOwn < it.context ? first + kOwn : it.context;
  for (unsigned key = 0; key < end; key += J) {
    __syncthreads();
    load_vectors<D, J>(it, keys, it.x_row, key, it.rotates(), others.at);
    __syncthreads();
    float scores[kEach][J / kAcross];
    multiply_vectors<D>(queries.at, others.at, scores);
    softmax.take(it, row, first, key, scores);
    place_weights<J>(scores, weights.at);
    __syncthreads();
    load_vectors<D, J>(it, values, it.x_row, key, false, others.at);
    __syncthreads();
    add_vectors<D, J>(weights.at, others.at, softmax.out);
  }
  for (unsigned r = 0; r < kEach; ++r) {
    const unsigned i = first + own() + r;
    const float sum = sum_across(softmax.sum[r]);
    for (float& value : softmax.out[r]) value /= sum;
    if (denominators != nullptr && across() == 0 && i < it.context)
      denominators[row + i] = softmax.largest[r] + logf(sum);
  }
  spread<D>(softmax.out, queries.at);
  __syncthreads();
  store_vectors<D, kOwn>(it, queries.at, first, false, it.y_row,
                         y + team.place(it, it.y_row, team.part * it.size));
}

template <unsigned D>
__global__ void __launch_bounds__(kTeam)
    query_gradients(Heads it, const float* x, const float* dy, Queries saved, float* dx) {
  constexpr unsigned J = kOther<D>, N = J / kAcross;
  STARLING_SHARED SharedVectors<kOwn, D> queries, gradients;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team<kOwn> team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const std::size_t place = team.place(it, it.x_row, team.part * it.size);
  const float* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const float* values = keys + it.groups * it.size;
  load_vectors<D, kOwn>(it, x + place, it.x_row, first, it.rotates(), queries.at);
  load_vectors<D, kOwn>(it, dy + team.place(it, it.y_row, team.part * it.size), it.y_row, first, false,
                        gradients.at);
  Query query[kEach];
  for (unsigned r = 0; r < kEach; ++r) query[r] = saved.at(it, row, first + own() + r);
  float sums[kEach][kValuesOf<D>] = {};
  const unsigned end = first + kOwn < it.context ? first + kOwn : it.context;
  for (unsigned key = 0; key < end; key += J) {
    float dp[kEach][N], scores[kEach][N];
    __syncthreads();
    load_vectors<D, J>(it, values, it.x_row, key, false, others.at);
    __syncthreads();
    multiply_vectors<D>(gradients.at, others.at, dp);
    __syncthreads();
    load_vectors<D, J>(it, keys, it.x_row, key, it.rotates(), others.at);
    __syncthreads();
    multiply_vectors<D>(queries.at, others.at, scores);
    for (unsigned r = 0; r < kEach; ++r) {
      for (unsigned c = 0; c < N; ++c) {
        const unsigned i = first + own() + r, j = key + across() + c * kAcross;
        const float p = j <= i ? expf(scores[r][c] * it.scale - query[r].denominator) : 0.0F;
        scores[r][c] = p * (kept(it, row, i, j) * dp[r][c] - query[r].mean) * it.scale;
      }
    }
    place_weights<J>(scores, weights.at);
    __syncthreads();
    add_vectors<D, J>(weights.at, others.at, sums);
  }
  spread<D>(sums, queries.at);
  __syncthreads();
  store_vectors<D, kOwn>(it, queries.at, first, it.rotates(), it.x_row, dx + place);
}

// Products of own keys and of queries become weights, in `used` with dropout. From key `key` and query
// `query` on.
template <unsigned N>
__device__ void weights_of_keys(const Heads& it, const Queries& saved, unsigned row, unsigned key,
                                unsigned query, float (&p)[kEach][N], float (&used)[kEach][N]) {
  for (unsigned c = 0; c < N; ++c) {
    const unsigned i = query + across() + c * kAcross;
    const float denominator = saved.at(it, row, i).denominator;
    for (unsigned r = 0; r < kEach; ++r) {
      const unsigned j = key + own() + r;
      p[r][c] = j <= i ? expf(p[r][c] * it.scale - denominator) : 0.0F;
      used[r][c] = p[r][c] * kept(it, row, i, j);
    }
  }
}

// The keys and values of a group, whose gradients are sums over its heads.
template <unsigned D>
__global__ void __launch_bounds__(kTeam)
    key_gradients(Heads it, const float* x, const float* dy, Queries saved, float* dx) {
  constexpr unsigned J = kOther<D>, N = J / kAcross;
  STARLING_SHARED SharedVectors<kOwn, D> keys, values;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team<kOwn> team(it, it.groups, false);
  const unsigned first = team.first, heads = it.heads / it.groups;
  const std::size_t key_place = team.place(it, it.x_row, (it.heads + team.part) * it.size);
  const std::size_t value_place = key_place + it.groups * it.size;
  load_vectors<D, kOwn>(it, x + key_place, it.x_row, first, it.rotates(), keys.at);
  load_vectors<D, kOwn>(it, x + value_place, it.x_row, first, false, values.at);
  float key_sums[kEach][kValuesOf<D>] = {}, value_sums[kEach][kValuesOf<D>] = {};
  for (unsigned head = team.part * heads; head < (team.part + 1) * heads; ++head) {
    const unsigned row = (team.sequence * it.heads + head) * it.context;
    const float* queries = x + team.place(it, it.x_row, head * it.size);
    const float* gradients = dy + team.place(it, it.y_row, head * it.size);
    for (unsigned query = first; query < it.context; query += J) {
      float p[kEach][N], used[kEach][N], dp[kEach][N];
      __syncthreads();
      load_vectors<D, J>(it, queries, it.x_row, query, it.rotates(), others.at);
      __syncthreads();
      multiply_vectors<D>(keys.at, others.at, p);
      weights_of_keys(it, saved, row, first, query, p, used);
      place_weights<J>(used, weights.at);
      __syncthreads();
      load_vectors<D, J>(it, gradients, it.y_row, query, false, others.at);
      __syncthreads();
      add_vectors<D, J>(weights.at, others.at, value_sums);
      multiply_vectors<D>(values.at, others.at, dp);
      for (unsigned c = 0; c < N; ++c) {
        const unsigned i = query + across() + c * kAcross;
        const float mean = saved.at(it, row, i).mean;
        for (unsigned r = 0; r < kEach; ++r)
          p[r][c] *= (kept(it, row, i, first + own() + r) * dp[r][c] - mean) * it.scale;
      }
      __syncthreads();
      place_weights<J>(p, weights.at);
      load_vectors<D, J>(it, queries, it.x_row, query, it.rotates(), others.at);
      __syncthreads();
      add_vectors<D, J>(weights.at, others.at, key_sums);
    }
  }
  __syncthreads();
  spread<D>(key_sums, keys.at);
  spread<D>(value_sums, values.at);
  __syncthreads();
  store_vectors<D, kOwn>(it, keys.at, first, it.rotates(), it.x_row, dx + key_place);
  store_vectors<D, kOwn>(it, values.at, first, false, it.x_row, dx + value_place);
}

void attend_forward(Stream& stream, const Heads& it, unsigned sequences, const float* x, float* y,
                    float* denominators) {
  with_head_size(it.size, [&]<unsigned D>(std::integral_constant<unsigned, D>) {
    launch_together(stream, Team<kOwn>::blocks(it, sequences, it.heads), kTeam, attend<D>, it, x, y,
                    denominators);
  });
}

void attend_backward(Stream& stream, const Heads& it, unsigned sequences, const float* x, const float* dy,
                     Queries saved, float* dx) {
  with_head_size(it.size, [&]<unsigned D>(std::integral_constant<unsigned, D>) {
    launch_together(stream, Team<kOwn>::blocks(it, sequences, it.heads), kTeam, query_gradients<D>, it, x, dy,
                    saved, dx);
    launch_together(stream, Team<kOwn>::blocks(it, sequences, it.groups), kTeam, key_gradients<D>, it, x, dy,
                    saved, dx);
  });
}

}  // namespace

const AttentionPasses kFloatAttention{attend_forward, attend_backward};

}  // namespace starling::kernels::cuda
