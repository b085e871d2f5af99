#include "kernels/cuda/passes.h"

#include <limits>

#include "kernels/cuda/launch.h"
#include "kernels/packing.h"

namespace starling::kernels::cuda {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kPassBlocks = 2048;  // the limit: as many as the largest devices run at once

// The arrays of a pass: the written ones come first.
template <int N>
struct Arrays {
  float* at[N];
};

// Calls op(values) for every element with its values of all arrays; the first Written values are stored.
// Before, each thread calls op.begin(), and op.enter(i) for elements from i on, if the operation has these.
template <int N, int Written, class Op>
__global__ void pass(Arrays<N> arrays, std::size_t begin, std::size_t end, Op op) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  if constexpr (requires { op.begin(); }) op.begin();
  for (std::size_t i = begin + std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end; i += step) {
    if constexpr (requires { op.enter(i); }) op.enter(i);
    float values[N];
    for (int k = 0; k < N; ++k) values[k] = arrays.at[k][i];
    op(values);
    for (int k = 0; k < Written; ++k) arrays.at[k][i] = values[k];
  }
}

// The same, four elements at a time. REQUIRES: the arrays are aligned to 16 bytes.
template <int N, int Written, class Op>
__global__ void pass_by_four(Arrays<N> arrays, std::size_t fours, Op op) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  if constexpr (requires { op.begin(); }) op.begin();
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < fours; i += step) {
    if constexpr (requires { op.enter(i); }) op.enter(4 * i);
    float4 four[N];
    for (int k = 0; k < N; ++k) four[k] = reinterpret_cast<const float4*>(arrays.at[k])[i];
    float x[N], y[N], z[N], w[N];
    for (int k = 0; k < N; ++k) {
      x[k] = four[k].x;
      y[k] = four[k].y;
      z[k] = four[k].z;
      w[k] = four[k].w;
    }
    op(x);
    op(y);
    op(z);
    op(w);
    for (int k = 0; k < Written; ++k)
      reinterpret_cast<float4*>(arrays.at[k])[i] = make_float4(x[k], y[k], z[k], w[k]);
  }
}

template <int N>
bool all_aligned(const Arrays<N>& arrays) {
  bool aligned = true;
  for (const float* array : arrays.at) aligned = aligned && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  return aligned;
}

template <int Written, int N, class Op>
void run(Stream& stream, Arrays<N> arrays, std::size_t n, Op op) {
  const std::size_t fours = all_aligned(arrays) ? n / 4 : 0, rest = n - 4 * fours;
  if (fours > 0)
    launch(stream, blocks_for(fours, kBlock, kPassBlocks), kBlock, pass_by_four<N, Written, Op>, arrays,
           fours, op);
  if (rest > 0)
    launch(stream, blocks_for(rest, kBlock, kPassBlocks), kBlock, pass<N, Written, Op>, arrays, 4 * fours, n,
           op);
}

// Read-only arrays are in the same list as written ones.
float* read_only(const float* array) { return const_cast<float*>(array); }

struct Add {
  __device__ void operator()(float (&v)[2]) const { v[0] += v[1]; }
};

// out, x, theirs, own.
struct Mix {
  float w;
  __device__ void operator()(float (&v)[4]) const { v[0] = v[1] + w * (v[2] - v[3]); }
};

// A factor that other work has left in memory.
struct Gain {
  const float* place;  // null: 1
  float value = 1;
  __device__ void read() {
    if (place != nullptr) value = *place;
  }
};

// x, velocity, gradient. The update is rate (from_velocity v' + from_gradient g'), as on the host.
struct Sgd {
  float rate, momentum, decay, from_velocity, from_gradient;
  Gain gain;
  __device__ void begin() { gain.read(); }
  __device__ void operator()(float (&v)[3]) const {
    const float g = gain.value * v[2] + decay * v[0];
    v[1] = momentum * v[1] + g;
    v[0] -= rate * (from_velocity * v[1] + from_gradient * g);
  }
};

// x, velocity, gradient.
struct SgdAlong {
  float rate, momentum, decay;
  Gain gain;
  __device__ void begin() { gain.read(); }
  __device__ void operator()(float (&v)[3]) const {
    v[0] -= rate * (momentum * v[1] + gain.value * v[2] + decay * v[0]);
  }
};

// x, mean, square, gradient.
struct AdamW {
  float rate, scale, beta1, beta2, epsilon, decay;
  const std::uint8_t* decays;
  Gain gain;
  float shrink = decay;  // of the elements that were entered
  __device__ void begin() { gain.read(); }
  __device__ void enter(std::size_t i) {
    if (decays != nullptr) shrink = decays[i / kDecayBlock] != 0 ? decay : 0.0F;
  }
  __device__ void operator()(float (&v)[4]) const {
    const float g = gain.value * v[3];
    v[1] = beta1 * v[1] + (1 - beta1) * g;
    v[2] = beta2 * v[2] + (1 - beta2) * (g * g);
    v[0] -= rate * v[1] / (sqrtf(v[2]) * scale + epsilon) + shrink * v[0];
  }
};

// velocity, last, x.
struct Follow {
  float keep, gain;
  __device__ void operator()(float (&v)[3]) const {
    v[0] = keep * v[0] + gain * (v[1] - v[2]);
    v[1] = v[2];
  }
};

__global__ void add_atomically(float* x, const float* delta, std::size_t n) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    atomicAdd(x + i, delta[i]);
}

__global__ void add_at_places(float* x, const std::uint32_t* places, const float* delta, float* mixed,
                              std::size_t n) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const float value = x[places[i]] + delta[i];
    x[places[i]] = value;
    mixed[i] = value;
  }
}

// One thread's measure of a mix.
struct Sight {
  float distance_square = 0;
  int largest = 0;

  __device__ void mix(float& x, float theirs, float own, float w) {
    const float difference = theirs - own;
    x += w * difference;
    distance_square += difference * difference;
    const int bits = magnitude_bits(theirs);
    largest = bits > largest ? bits : largest;
  }
};

// Combines the block's measures and adds them to *measure.
__device__ inline void report(const Sight& sight, MixMeasure* measure) {
  STARLING_SHARED float squares[kBlock / kWarp];
  STARLING_SHARED int largest[kBlock / kWarp];
  const float square = warp_sum(sight.distance_square);
  int most = sight.largest;
  for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) {
    const int other = shuffle_xor(most, bits);
    most = other > most ? other : most;
  }
  if (threadIdx.x % kWarp == 0) {
    squares[threadIdx.x / kWarp] = square;
    largest[threadIdx.x / kWarp] = most;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned warp = 0; warp < kBlock / kWarp; ++warp) {
    sum += squares[warp];
    most = largest[warp] > most ? largest[warp] : most;
  }
  atomicAdd(&measure->distance_square, sum);
  atomicMax(reinterpret_cast<int*>(&measure->largest), most);
}

// The sum of the values of a block's threads, for the first of them; 0 for the others.
__device__ inline double block_sum(double value) {
  STARLING_SHARED double sums[kBlock];
  sums[threadIdx.x] = value;
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? sums[0] : 0;
}

__device__ inline double squared(float x) { return static_cast<double>(x) * static_cast<double>(x); }

__global__ void sum_squares(const float* x, std::size_t fours, std::size_t n, double* sums) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  double sum = 0;
  for (std::size_t i = first; i < fours; i += step) {
    const float4 four = reinterpret_cast<const float4*>(x)[i];
    sum += (squared(four.x) + squared(four.y)) + (squared(four.z) + squared(four.w));
  }
  for (std::size_t i = 4 * fours + first; i < n; i += step) sum += squared(x[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// kernels::clip_gain() of the sum of the first `count` sums, in one block.
__global__ void find_gain(Clip* clip, unsigned count, float limit) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += clip->sums[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const double gain = static_cast<double>(limit) / (sqrt(sum) + 1e-6);
  const bool finite = sum <= std::numeric_limits<double>::max();
  clip->gain = finite && gain < 1 ? static_cast<float>(gain) : 1.0F;
}

__global__ void mix_and_measure(float* x, const float* theirs, const float* own, float w, std::size_t fours,
                                std::size_t n, MixMeasure* measure) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  Sight sight;
  for (std::size_t i = first; i < fours; i += step) {
    float4 value = reinterpret_cast<const float4*>(x)[i];
    const float4 t = reinterpret_cast<const float4*>(theirs)[i];
    const float4 o = reinterpret_cast<const float4*>(own)[i];
    sight.mix(value.x, t.x, o.x, w);
    sight.mix(value.y, t.y, o.y, w);
    sight.mix(value.z, t.z, o.z, w);
    sight.mix(value.w, t.w, o.w, w);
    reinterpret_cast<float4*>(x)[i] = value;
  }
  for (std::size_t i = 4 * fours + first; i < n; i += step) sight.mix(x[i], theirs[i], own[i], w);
  report(sight, measure);
}

}  // namespace

void mix(Stream& stream, float* out, const float* x, const float* theirs, const float* own, float w,
         std::size_t n) {
  run<1>(stream, Arrays<4>{{out, read_only(x), read_only(theirs), read_only(own)}}, n, Mix{w});
}

void mix(Stream& stream, float* x, const float* theirs, const float* own, float w, MixMeasure* measure,
         std::size_t n) {
  if (n == 0) return;
  const Arrays<3> arrays{{x, read_only(theirs), read_only(own)}};
  const std::size_t fours = all_aligned(arrays) ? n / 4 : 0;
  const unsigned blocks = blocks_for(fours > 0 ? fours : n, kBlock, kPassBlocks);
  launch_together(stream, blocks, kBlock, mix_and_measure, x, theirs, own, w, fours, n, measure);
}

void add(Stream& stream, float* x, const float* delta, std::size_t n, bool atomic) {
  if (!atomic) return run<1>(stream, Arrays<2>{{x, read_only(delta)}}, n, Add());
  if (n > 0) launch(stream, blocks_for(n, kBlock, kPassBlocks), kBlock, add_atomically, x, delta, n);
}

void add_at(Stream& stream, float* x, const std::uint32_t* places, const float* delta, float* mixed,
            std::size_t n) {
  if (n > 0)
    launch(stream, blocks_for(n, kBlock, kPassBlocks), kBlock, add_at_places, x, places, delta, mixed, n);
}

void sgd(Stream& stream, float* x, const float* gradient, float* velocity, const SgdStep& step,
         std::size_t n) {
  run<2>(stream, Arrays<3>{{x, velocity, read_only(gradient)}}, n,
         Sgd{step.learning_rate,
             step.momentum,
             step.weight_decay,
             step.nesterov ? step.momentum : 1.0F,
             step.nesterov ? 1.0F : 0.0F,
             {step.gain}});
}

void sgd_along(Stream& stream, float* x, const float* gradient, const float* velocity, const SgdStep& step,
               std::size_t n) {
  run<1>(stream, Arrays<3>{{x, read_only(velocity), read_only(gradient)}}, n,
         SgdAlong{step.learning_rate, step.momentum, step.weight_decay, {step.gain}});
}

void adamw(Stream& stream, float* x, const float* gradient, float* mean, float* square, const AdamWStep& step,
           std::uint64_t t, std::size_t n) {
  const AdamWCorrections corrections(step, t);
  run<3>(stream, Arrays<4>{{x, mean, square, read_only(gradient)}}, n,
         AdamW{corrections.rate,
               corrections.scale,
               step.beta1,
               step.beta2,
               step.epsilon,
               step.learning_rate * step.weight_decay,
               step.decays,
               {step.gain}});
}

void clip(Stream& stream, const float* gradient, std::size_t n, float limit, Clip* clip) {
  const std::size_t fours = reinterpret_cast<std::uintptr_t>(gradient) % 16 == 0 ? n / 4 : 0;
  const unsigned blocks = blocks_for(fours > 0 ? fours : n, kBlock, Clip::kSums);
  launch_together(stream, blocks, kBlock, sum_squares, gradient, fours, n, clip->sums);
  launch_together(stream, 1, kBlock, find_gain, clip, blocks, limit);
}

void follow(Stream& stream, const float* x, float* velocity, float* last, float keep, float gain,
            std::size_t n) {
  run<2>(stream, Arrays<3>{{velocity, last, read_only(x)}}, n, Follow{keep, gain});
}

}  // namespace starling::kernels::cuda
