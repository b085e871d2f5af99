// Causal attention with an online softmax (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention",
// NeurIPS 2022). A block has kOwn vectors of one head, in shared memory, and goes through tiles of the others
// that belong to them: a block of queries through the keys up to them, a block of keys through the queries
// from them on. The weights of a tile exist only in registers and shared memory. From the forward to the
// backward pass one float is kept for each query, the logarithm of the softmax's denominator; the weights are
// computed again, once for the gradient of the queries and once for those of keys and values, so no sum is
// shared by blocks. All arithmetic is in float32.
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cuda/draws.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/tiles.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cuda {
namespace {

using reference::DropoutDraw;

// A block's threads: each computes with kEach own vectors, and kAcross threads share these.
constexpr unsigned kDown = 8, kAcross = 16, kEach = 4;
constexpr unsigned kOwn = kDown * kEach, kTeam = kDown * kAcross;
constexpr unsigned kMostHead = 128;

// D is the size of a head, rounded up; the rest is 0. Other vectors in a tile, so that all fits in the 48 KiB
// of shared memory.
template <unsigned D>
constexpr unsigned kOther = D > 64 ? 16 : 32;

// Vectors in shared memory, spaced so that neighboring ones are in different banks.
template <unsigned N>
constexpr unsigned kSpaced = N + 4;
template <unsigned Rows, unsigned N>
struct alignas(16) SharedVectors {
  float at[Rows * kSpaced<N>];
};

struct Heads {
  unsigned context, heads, groups, size;
  unsigned x_row, y_row;  // values of a position in x and y
  float scale;
  const float *cosines, *sines;  // [context, size / 2]; null: positions are not rotary
  const Drawn* drawn;            // null: nothing is dropped
  std::uint32_t dropped;
  float factor;  // 1 / (1 - rate)

  __device__ bool rotates() const { return cosines != nullptr; }
  // Whether heads, and their halves, can be read four values at a time.
  __device__ bool wide() const { return size % 8 == 0; }
};

// What a block computes: kOwn positions, from `first` on, of one of `parts` heads or groups.
struct Team {
  unsigned sequence, part, first;

  // The blocks with the most work start first: `last_first` if those are the last positions.
  __device__ Team(const Heads& it, unsigned parts, bool last_first) {
    const unsigned tiles = (it.context + kOwn - 1) / kOwn, each = gridDim.x / tiles;
    const unsigned tile = blockIdx.x / each, rest = blockIdx.x % each;
    first = (last_first ? tiles - 1 - tile : tile) * kOwn;
    sequence = rest / parts;
    part = rest % parts;
  }
  // Where a part of the sequence's first vector begins, for `row` values each, `at` of them before it.
  __device__ std::size_t place(const Heads& it, unsigned row, unsigned at) const {
    return static_cast<std::size_t>(sequence) * it.context * row + at;
  }
};

// The thread's first own vector, and its place among those that share it.
__device__ unsigned own() { return threadIdx.x / kAcross * kEach; }
__device__ unsigned across() { return threadIdx.x % kAcross; }

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
__device__ unsigned partner_of(const Heads& it, unsigned f) {
  return f < it.size / 2 ? f + it.size / 2 : f - it.size / 2;
}

template <unsigned D, unsigned Rows, unsigned V, class T>
__device__ void fetch_by(const Heads& it, const T* from, unsigned row, unsigned first, bool turns,
                         float* to) {
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
    store<V>(values, to + i * kSpaced<D> + f);
  }
}
// Copies as many vectors from position `first` on to shared memory, rotated if `turns`. `from` is that of
// position 0; behind the last position and the last value are zeros.
template <unsigned D, unsigned Rows, class T>
__device__ void fetch(const Heads& it, const T* from, unsigned row, unsigned first, bool turns, float* to) {
  if (it.wide()) return fetch_by<D, Rows, 4>(it, from, row, first, turns, to);
  fetch_by<D, Rows, 1>(it, from, row, first, turns, to);
}

template <unsigned D, unsigned V, class T>
__device__ void put_by(const Heads& it, const float* from, unsigned first, bool turns, unsigned row, T* to) {
  for (unsigned index = threadIdx.x; index < kOwn * (D / V); index += kTeam) {
    const unsigned i = index / (D / V), f = index % (D / V) * V, position = first + i;
    if (position >= it.context || f >= it.size) continue;
    float values[V];
    load<V>(from + i * kSpaced<D> + f, values);
    if (turns) {
      float partners[V];
      load<V>(from + i * kSpaced<D> + partner_of(it, f), partners);
      turn<V>(it, position, f, partners, -1, values);
    }
    store<V>(values, to + static_cast<std::size_t>(position) * row + f);
  }
}
// Copies the own vectors from shared memory, rotated back if `turns`.
template <unsigned D, class T>
__device__ void put(const Heads& it, const float* from, unsigned first, bool turns, unsigned row, T* to) {
  if (it.wide()) return put_by<D, 4>(it, from, first, turns, row, to);
  put_by<D, 1>(it, from, first, turns, row, to);
}

// products[r][c] = a[own() + r] . b[across() + c kAcross]
template <unsigned D, unsigned N>
__device__ void multiply_vectors(const float* a, const float* b, float (&products)[kEach][N]) {
  for (auto& row : products) {
    for (float& product : row) product = 0;
  }
  for (unsigned f = 0; f < D; f += 4) {
    float mine[kEach][4], other[4];
    for (unsigned r = 0; r < kEach; ++r) load<4>(a + (own() + r) * kSpaced<D> + f, mine[r]);
    for (unsigned c = 0; c < N; ++c) {
      load<4>(b + (across() + c * kAcross) * kSpaced<D> + f, other);
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
    for (unsigned r = 0; r < kEach; ++r) load<4>(weights + (own() + r) * kSpaced<J> + j, factors[r]);
    for (unsigned v = 0; v < 4; ++v) {
      for (unsigned run = 0; run < kValuesOf<D>; run += R) {
        float values[R];
        load<R>(b + (j + v) * kSpaced<D> + run * kAcross + across() * R, values);
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
        to[(own() + r) * kSpaced<D> + run * kAcross + across() * R + k] = sums[r][run + k];
    }
  }
}

// weights[own() + r, across() + c kAcross] = values[r][c]
template <unsigned J, unsigned N>
__device__ void place_weights(const float (&values)[kEach][N], float* weights) {
  for (unsigned r = 0; r < kEach; ++r) {
    for (unsigned c = 0; c < N; ++c)
      weights[(own() + r) * kSpaced<J> + across() + c * kAcross] = values[r][c];
  }
}

// By what dropout multiplies the weight of query i and key j; `row`: the index of the head's first row in
// [sequence, head, position].
__device__ float kept(const Heads& it, unsigned row, unsigned i, unsigned j) {
  if (it.drawn == nullptr) return 1;
  return DropoutDraw(it.drawn->bits, it.dropped).keeps((row + i) * it.context + j) ? it.factor : 0.0F;
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
template <class T, unsigned D>
__global__ void __launch_bounds__(kTeam) attend(Heads it, const T* x, T* y, float* denominators) {
  constexpr unsigned J = kOther<D>;
  STARLING_SHARED SharedVectors<kOwn, D> queries;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const T* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const T* values = keys + it.groups * it.size;
  fetch<D, kOwn>(it, x + team.place(it, it.x_row, team.part * it.size), it.x_row, first, it.rotates(),
                 queries.at);
  Softmax<D> softmax;
  const unsigned end = first + kOwn < it.context ? first + kOwn : it.context;
  for (unsigned key = 0; key < end; key += J) {
    __syncthreads();
    fetch<D, J>(it, keys, it.x_row, key, it.rotates(), others.at);
    __syncthreads();
    float scores[kEach][J / kAcross];
    multiply_vectors<D>(queries.at, others.at, scores);
    softmax.take(it, row, first, key, scores);
    place_weights<J>(scores, weights.at);
    __syncthreads();
    fetch<D, J>(it, values, it.x_row, key, false, others.at);
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
  put<D>(it, queries.at, first, false, it.y_row, y + team.place(it, it.y_row, team.part * it.size));
}

// means[sequence, head, position] = y . dy of each head, the mean of dp by the weights: a warp for each.
template <class T>
__global__ void mean_gradients(Heads it, unsigned rows, const T* y, const T* dy, float* means) {
  const bool real = warp_number() < rows;
  const unsigned number = real ? warp_number() : rows - 1, head = number % it.heads, n = number / it.heads;
  const std::size_t begin = static_cast<std::size_t>(n) * it.y_row + head * it.size;
  float sum = 0;
  for (unsigned f = threadIdx.x % kWarp; f < it.size; f += kWarp)
    sum += to_float(y[begin + f]) * to_float(dy[begin + f]);
  sum = warp_sum(sum);
  if (real && threadIdx.x % kWarp == 0)
    means[(n / it.context * it.heads + head) * it.context + n % it.context] = sum;
}

// What the backward pass reads of a query: the logarithm of its denominator, and its mean gradient.
struct Query {
  float denominator, mean;
};
struct Queries {
  const float *denominators, *means;
  __device__ Query at(const Heads& it, unsigned row, unsigned i) const {
    if (i >= it.context) return {INFINITY, 0};  // its weights are 0
    return {denominators[row + i], means[row + i]};
  }
};

template <class T, unsigned D>
__global__ void __launch_bounds__(kTeam)
    query_gradients(Heads it, const T* x, const T* dy, Queries saved, T* dx) {
  constexpr unsigned J = kOther<D>, N = J / kAcross;
  STARLING_SHARED SharedVectors<kOwn, D> queries, gradients;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team team(it, it.heads, true);
  const unsigned group = team.part / (it.heads / it.groups), first = team.first;
  const unsigned row = (team.sequence * it.heads + team.part) * it.context;
  const std::size_t place = team.place(it, it.x_row, team.part * it.size);
  const T* keys = x + team.place(it, it.x_row, (it.heads + group) * it.size);
  const T* values = keys + it.groups * it.size;
  fetch<D, kOwn>(it, x + place, it.x_row, first, it.rotates(), queries.at);
  fetch<D, kOwn>(it, dy + team.place(it, it.y_row, team.part * it.size), it.y_row, first, false,
                 gradients.at);
  Query query[kEach];
  for (unsigned r = 0; r < kEach; ++r) query[r] = saved.at(it, row, first + own() + r);
  float sums[kEach][kValuesOf<D>] = {};
  const unsigned end = first + kOwn < it.context ? first + kOwn : it.context;
  for (unsigned key = 0; key < end; key += J) {
    float dp[kEach][N], scores[kEach][N];
    __syncthreads();
    fetch<D, J>(it, values, it.x_row, key, false, others.at);
    __syncthreads();
    multiply_vectors<D>(gradients.at, others.at, dp);
    __syncthreads();
    fetch<D, J>(it, keys, it.x_row, key, it.rotates(), others.at);
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
  put<D>(it, queries.at, first, it.rotates(), it.x_row, dx + place);
}

// The keys and values of a group, whose gradients are sums over its heads.
template <class T, unsigned D>
__global__ void __launch_bounds__(kTeam)
    key_gradients(Heads it, const T* x, const T* dy, Queries saved, T* dx) {
  constexpr unsigned J = kOther<D>, N = J / kAcross;
  STARLING_SHARED SharedVectors<kOwn, D> keys, values;
  STARLING_SHARED SharedVectors<J, D> others;
  STARLING_SHARED SharedVectors<kOwn, J> weights;
  const Team team(it, it.groups, false);
  const unsigned first = team.first, heads = it.heads / it.groups;
  const std::size_t key_place = team.place(it, it.x_row, (it.heads + team.part) * it.size);
  const std::size_t value_place = key_place + it.groups * it.size;
  fetch<D, kOwn>(it, x + key_place, it.x_row, first, it.rotates(), keys.at);
  fetch<D, kOwn>(it, x + value_place, it.x_row, first, false, values.at);
  float key_sums[kEach][kValuesOf<D>] = {}, value_sums[kEach][kValuesOf<D>] = {};
  for (unsigned head = team.part * heads; head < (team.part + 1) * heads; ++head) {
    const unsigned row = (team.sequence * it.heads + head) * it.context;
    const T* queries = x + team.place(it, it.x_row, head * it.size);
    const T* gradients = dy + team.place(it, it.y_row, head * it.size);
    for (unsigned query = first; query < it.context; query += J) {
      float p[kEach][N], dp[kEach][N];
      __syncthreads();
      fetch<D, J>(it, queries, it.x_row, query, it.rotates(), others.at);
      __syncthreads();
      multiply_vectors<D>(keys.at, others.at, p);
      float used[kEach][N];
      for (unsigned c = 0; c < N; ++c) {
        const unsigned i = query + across() + c * kAcross;
        const float denominator = saved.at(it, row, i).denominator;
        for (unsigned r = 0; r < kEach; ++r) {
          const unsigned j = first + own() + r;
          p[r][c] = j <= i ? expf(p[r][c] * it.scale - denominator) : 0.0F;
          used[r][c] = p[r][c] * kept(it, row, i, j);
        }
      }
      place_weights<J>(used, weights.at);
      __syncthreads();
      fetch<D, J>(it, gradients, it.y_row, query, false, others.at);
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
      fetch<D, J>(it, queries, it.x_row, query, it.rotates(), others.at);
      __syncthreads();
      add_vectors<D, J>(weights.at, others.at, key_sums);
    }
  }
  __syncthreads();
  spread<D>(key_sums, keys.at);
  spread<D>(value_sums, values.at);
  __syncthreads();
  put<D>(it, keys.at, first, it.rotates(), it.x_row, dx + key_place);
  put<D>(it, values.at, first, false, it.x_row, dx + value_place);
}

template <class F>
void with_head_size(unsigned size, const F& f) {
  if (size <= 16) return f(std::integral_constant<unsigned, 16>());
  if (size <= 32) return f(std::integral_constant<unsigned, 32>());
  if (size <= 64) return f(std::integral_constant<unsigned, 64>());
  f(std::integral_constant<unsigned, kMostHead>());
}

Heads heads_of(const AttentionSpec& spec, const Shape& input) {
  Heads it{};
  it.context = static_cast<unsigned>(spec.context);
  it.heads = static_cast<unsigned>(spec.heads);
  it.groups = static_cast<unsigned>(spec.groups);
  it.size = static_cast<unsigned>(spec.head_size(input));
  it.x_row = static_cast<unsigned>(input.channels);
  it.y_row = it.heads * it.size;
  it.scale = 1 / std::sqrt(static_cast<float>(it.size));
  it.dropped = DropoutDraw::dropped_of({spec.dropout, spec.seed});
  it.factor = 1 / (1 - spec.dropout);
  return it;
}

class DeviceAttention final : public Operation {
 public:
  DeviceAttention(Stream& stream, const AttentionSpec& spec, const Activation& input, Passes passes)
      : Operation(activation_like(input, output_shape(spec, input.shape)), 1),
        stream_(stream),
        rows_(counted(static_cast<std::size_t>(input.shape.batch) * static_cast<std::size_t>(spec.heads))),
        memory_(stream.device()),
        draws_(stream, spec.seed, passes.backward && spec.dropout > 0) {
    counted(input);
    heads_ = heads_of(spec, input.shape);
    if (heads_.size > kMostHead) {
      throw DeviceError("an attention layer has heads of " + std::to_string(heads_.size) +
                        " values; a GPU computes at most " + std::to_string(kMostHead) +
                        ": use more heads, or train on the processor with --device cpu");
    }
    heads_.drawn = draws_.last();
    if (spec.rotary_base > 0) make_angles(static_cast<double>(spec.rotary_base));
    if (passes.backward) denominators_ = Buffer(rows_, memory_);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    draws_.next();
    forward_again(parameters, x, y);
  }
  void forward_again(const float*, const float* x, float* y) override {
    with_types([&]<class T, unsigned D>() {
      launch_together(stream_, teams(heads_.heads), kTeam, attend<T, D>, heads_, values<T>(x), values<T>(y),
                      denominators_.data());
    });
  }

  void backward(const float*, const float* x, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    const Queries saved{denominators_.data(), means_};
    with_types([&]<class T, unsigned D>() {
      launch_together(stream_, blocks_of_warps(rows_), kThreads, mean_gradients<T>, heads_, rows_,
                      values<T>(y), values<T>(dy), means_);
      launch_together(stream_, teams(heads_.heads), kTeam, query_gradients<T, D>, heads_, values<T>(x),
                      values<T>(dy), saved, values<T>(dx));
      launch_together(stream_, teams(heads_.groups), kTeam, key_gradients<T, D>, heads_, values<T>(x),
                      values<T>(dy), saved, values<T>(dx));
    });
  }

  void set_draws(std::uint64_t draws) override { draws_.set(draws); }

  std::size_t workspace_bytes() const override {
    return denominators_.bytes() + angles_.bytes() + draws_.bytes();
  }
  std::size_t scratch_floats() const override { return denominators_.size(); }
  void set_scratch(float* scratch) override { means_ = scratch; }

 private:
  void make_angles(double base) {
    const std::size_t half = heads_.size / 2, n = heads_.context * half;
    std::vector<float> angles(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      const double angle =
          static_cast<double>(i / half) * std::pow(base, -2.0 * static_cast<double>(i % half) / heads_.size);
      angles[i] = static_cast<float>(std::cos(angle));
      angles[n + i] = static_cast<float>(std::sin(angle));
    }
    angles_ = Buffer(angles.size(), memory_);
    stream_.upload(angles.data(), angles_.data(), angles_.bytes());
    stream_.wait();
    heads_.cosines = angles_.data();
    heads_.sines = angles_.data() + n;
  }

  // Blocks for all positions of `parts` of each sequence.
  unsigned teams(unsigned parts) const {
    const unsigned tiles = (heads_.context + kOwn - 1) / kOwn;
    return rows_ / heads_.heads / heads_.context * parts * tiles;
  }

  template <class F>
  void with_types(const F& f) {
    with_type(output(), [&]<class T>(T) {
      with_head_size(heads_.size,
                     [&]<unsigned D>(std::integral_constant<unsigned, D>) { f.template operator()<T, D>(); });
    });
  }

  Stream& stream_;
  Heads heads_{};
  unsigned rows_;  // of all heads
  DeviceMemory memory_;
  Draws draws_;
  Buffer denominators_, angles_;
  float* means_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_attention(Stream& stream, const AttentionSpec& spec, const Activation& input,
                                          Passes passes) {
  return std::make_unique<DeviceAttention>(stream, spec, input, passes);
}

}  // namespace starling::kernels::cuda
