// The passes of normalizations over activations, one value of x (and of dy) at a time, and the small kernels
// between them (norm.h).
#include "kernels/cuda/layers/norm.h"

#include <cmath>

namespace starling::kernels::cuda {
namespace {

// Between the passes: a warp for each group or channel, whose lanes divide the sums.

__device__ double over_warp(double sum) {
  for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
  return sum;
}

__device__ void set_affine(const Affine& to, unsigned row, double mean, double variance, double epsilon,
                           double scale, double shift) {
  const auto origin = static_cast<float>(mean);
  const double a = scale / sqrt(variance + epsilon);
  to.origin[row] = origin;
  to.a[row] = static_cast<float>(a);
  to.b[row] = static_cast<float>(shift - a * (mean - static_cast<double>(origin)));
}

// The number of moments of a group, and of the values that each of them represents.
struct Entries {
  unsigned each, splits, units, chunk, values;  // `values` of a unit

  __device__ double count(unsigned entry) const {
    const unsigned begin = entry % splits * chunk;
    return static_cast<double>(units - begin < chunk ? units - begin : chunk) * values;
  }
};

__global__ void moments_to_affine(NormGroups groups, Entries entries, const Moment* moments,
                                  const float* scale, const float* shift, Affine to, Statistics* statistics) {
  const unsigned all = groups.segments * groups.groups, lane = threadIdx.x % kWarp;
  const bool real = warp_number() < all;  // surplus warps repeat the last group without effect
  const unsigned group = real ? warp_number() : all - 1;
  moments += group * entries.each;
  // About one of the means: in double, cancellation leaves enough digits, without a division for each.
  const double about = static_cast<double>(moments[0].pivot) + static_cast<double>(moments[0].off);
  double sum = 0, squares = 0;
  for (unsigned entry = lane; entry < entries.each; entry += kWarp) {
    const Moment moment = moments[entry];
    const double count = entries.count(entry);
    const double off = static_cast<double>(moment.pivot) - about + static_cast<double>(moment.off);
    sum += count * off;
    squares += static_cast<double>(moment.squares) + count * off * off;
  }
  const double off = over_warp(sum) / groups.values;
  const double apart = over_warp(squares) / groups.values - off * off, mean = about + off;
  if (!real) return;
  const double variance = apart < 0 ? 0.0 : apart;  // rounding may be below 0 for equal values
  if (lane == 0) statistics[group] = {mean, variance};
  for (unsigned i = lane; i < groups.channels_each; i += kWarp) {
    const unsigned channel = group % groups.groups * groups.channels_each + i;
    set_affine(to, group * groups.channels_each + i, mean, variance, static_cast<double>(groups.epsilon),
               static_cast<double>(scale[channel]),
               shift == nullptr ? 0.0 : static_cast<double>(shift[channel]));
  }
}

__global__ void statistics_to_affine(NormGroups groups, const float* mean, const float* variance,
                                     const float* scale, const float* shift, Affine to) {
  const unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= groups.groups) return;
  const double positive = variance[channel] < 0 ? 0.0 : static_cast<double>(variance[channel]);
  set_affine(to, channel, static_cast<double>(mean[channel]), positive, static_cast<double>(groups.epsilon),
             static_cast<double>(scale[channel]), static_cast<double>(shift[channel]));
}

struct Sums {
  NormGroups groups;
  unsigned splits;
  const GradientSums* sums;
  const Statistics* statistics;
  const float *origin, *scale;

  __device__ double deviation(unsigned group) const {
    return sqrt(statistics[group].variance + static_cast<double>(groups.epsilon));
  }
  // The difference between a group's mean and origin, equal for all of its channels.
  __device__ double left(unsigned group) const {
    return statistics[group].mean - static_cast<double>(origin[group * groups.channels_each]);
  }
  // The sum of d u over one split of a channel of the group, where u = (x - mean) / deviation.
  __device__ double with_u(const GradientSums& sum, unsigned group) const {
    return (static_cast<double>(sum.d_off) - left(group) * static_cast<double>(sum.d)) / deviation(group);
  }
};

// With g = scale d, dx = (g - mean of g - u mean of (g u)) / deviation.
__device__ void group_gradient(const Sums& in, unsigned group, bool real, const InputGradient& to) {
  const unsigned lane = threadIdx.x % kWarp, each = in.groups.channels_each;
  const unsigned first = group % in.groups.groups * each;
  double sum_g = 0, sum_gu = 0;
  for (unsigned i = lane; i < each * in.splits; i += kWarp) {
    const GradientSums sum = in.sums[group * each * in.splits + i];
    const auto scale = static_cast<double>(in.scale[first + i / in.splits]);
    sum_g += scale * static_cast<double>(sum.d);
    sum_gu += scale * in.with_u(sum, group);
  }
  sum_g = over_warp(sum_g);
  sum_gu = over_warp(sum_gu);
  if (!real) return;
  // For a single value the gradient is 0; p d + r would be only rounding errors.
  const double inverse = in.groups.values > 1 ? 1 / in.deviation(group) : 0;
  const double per_off = -sum_gu / in.groups.values * inverse * inverse;
  const double rest = -sum_g / in.groups.values * inverse - per_off * in.left(group);
  for (unsigned i = lane; i < each; i += kWarp) {
    to.p[group * each + i] = static_cast<float>(static_cast<double>(in.scale[first + i]) * inverse);
    to.q[group * each + i] = static_cast<float>(per_off);
    to.r[group * each + i] = static_cast<float>(rest);
  }
}

__device__ void channel_gradient(const Sums& in, unsigned channel, bool real, const NormGradients& to) {
  const unsigned lane = threadIdx.x % kWarp, each = in.groups.channels_each;
  const unsigned channels = in.groups.groups * each;
  double sum_d = 0, sum_du = 0;
  for (unsigned i = lane; i < in.groups.segments * in.splits; i += kWarp) {
    const unsigned segment = i / in.splits, split = i % in.splits;
    const GradientSums sum = in.sums[(segment * channels + channel) * in.splits + split];
    sum_d += static_cast<double>(sum.d);
    sum_du += in.with_u(sum, segment * in.groups.groups + channel / each);
  }
  sum_d = over_warp(sum_d);
  sum_du = over_warp(sum_du);
  if (!real || lane != 0) return;
  to.scale[channel] = static_cast<float>(sum_du);
  if (to.shift != nullptr) to.shift[channel] = static_cast<float>(sum_d);
  if (to.mean == nullptr) return;
  const auto [mean, variance] = in.statistics[channel];
  const double values = in.groups.values, unbiased = values > 1 ? variance * (values / (values - 1)) : 0;
  const auto momentum = static_cast<double>(to.momentum);
  to.mean[channel] = static_cast<float>(momentum * (mean - static_cast<double>(to.running_mean[channel])));
  to.variance[channel] =
      static_cast<float>(momentum * (unbiased - static_cast<double>(to.running_variance[channel])));
}

// The first `of_groups` warps process the groups, the others the channels.
__global__ void sums_to_gradient(Sums in, unsigned of_groups, InputGradient dx, NormGradients to) {
  const unsigned warp = warp_number(), channels = in.groups.groups * in.groups.channels_each;
  if (warp < of_groups) return group_gradient(in, warp, true, dx);
  const bool real = warp - of_groups < channels;
  channel_gradient(in, real ? warp - of_groups : channels - 1, real, to);
}

// moments: [segments, lines of a segment, splits], of whole groups or of their channels.
void finish_moments(Stream& stream, const NormGroups& groups, const Pattern& measured, const Moment* moments,
                    const float* scale, const float* shift, const Affine& to, Statistics* statistics) {
  const Tiles& tiles = measured.tiles;
  const unsigned all = groups.segments * groups.groups;
  const unsigned values_of_wide = measured.bf16 ? kWide<Bfloat16> : kWide<float>;
  const Entries entries{tiles.channels / groups.groups * tiles.splits, tiles.splits, tiles.units, tiles.chunk,
                        measured.wide && !measured.columns ? values_of_wide : 1};
  launch_together(stream, blocks_of_warps(all), kThreads, moments_to_affine, groups, entries, moments, scale,
                  shift, to, statistics);
}

void use_statistics(Stream& stream, const NormGroups& groups, const float* mean, const float* variance,
                    const float* scale, const float* shift, const Affine& to) {
  launch(stream, blocks_for(groups.groups, kThreads), kThreads, statistics_to_affine, groups, mean, variance,
         scale, shift, to);
}

// sums: [segments, channels, splits]. `dx` null: only the parameters' gradients.
void finish_gradient(Stream& stream, const NormGroups& groups, unsigned splits, const GradientSums* sums,
                     const Statistics* statistics, const float* origin, const float* scale,
                     const InputGradient* dx, const NormGradients& to) {
  const unsigned of_groups = dx == nullptr ? 0 : groups.segments * groups.groups;
  const unsigned channels = groups.groups * groups.channels_each;
  launch_together(stream, blocks_of_warps(of_groups + channels), kThreads, sums_to_gradient,
                  Sums{groups, splits, sums, statistics, origin, scale}, of_groups,
                  dx == nullptr ? InputGradient{} : *dx, to);
}

// The passes.

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    measure_lines(Tiles tiles, const typename L::T* x, Moment* moments) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  // The pivot is the mean of the members' first values: it is far from the others only if some of them are.
  float pivot[kChannels] = {};
  if (share.begin + share.member < share.end) {
    float values[kValues];
    load<kValues>(x + share.at(tiles, share.begin + share.member), values);
    for (unsigned v = 0; v < kValues; ++v) pivot[v % kChannels] += values[v];
  }
  sum_members(tiles, share, pivot);
  const unsigned units = share.end - share.begin;
  const unsigned heads = units < tiles.members ? units : tiles.members;
  for (float& value : pivot) value /= static_cast<float>(heads * (kValues / kChannels));

  float sums[2 * kChannels] = {};
  share.each(tiles, [&](unsigned at) {
    float values[kValues];
    load<kValues>(x + at, values);
    for (unsigned v = 0; v < kValues; ++v) {
      const float off = values[v] - pivot[v % kChannels];
      sums[v % kChannels] += off;
      sums[kChannels + v % kChannels] += off * off;
    }
  });
  sum_members(tiles, share, sums);
  if (share.member != 0 || !share.any()) return;
  const float count = static_cast<float>(units * (kValues / kChannels));
  for (unsigned c = 0; c < kChannels; ++c) {
    const float off = sums[c] / count;
    moments[(share.row(tiles) + c) * tiles.splits + share.split] = {pivot[c], off,
                                                                    sums[kChannels + c] - sums[c] * off};
  }
}

// Both passes use this to decide where the ReLU is 0.
__device__ inline float affine(float off, float a, float b) { return off * a + b; }

template <unsigned N>
__device__ void fetch(const float* from, unsigned row, float (&to)[N]) {
  for (unsigned i = 0; i < N; ++i) to[i] = from[row + i];
}

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    write_y(Tiles tiles, Affine coefficients, bool relu, const typename L::T* __restrict__ x,
            typename L::T* __restrict__ y) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  if (!share.any()) return;
  float origin[kChannels], a[kChannels], b[kChannels];
  fetch(coefficients.origin, share.row(tiles), origin);
  fetch(coefficients.a, share.row(tiles), a);
  fetch(coefficients.b, share.row(tiles), b);
  share.each_backwards(tiles, [&](unsigned at) {
    float values[kValues];
    load<kValues>(x + at, values);
    for (unsigned v = 0; v < kValues; ++v) {
      const unsigned c = v % kChannels;
      const float value = affine(values[v] - origin[c], a[c], b[c]);
      values[v] = relu && !(value > 0) ? 0.0F : value;
    }
    store<kValues>(values, y + at);
  });
}

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    add_up(Tiles tiles, Affine coefficients, bool relu, const typename L::T* x, const typename L::T* dy,
           GradientSums* to) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  float origin[kChannels] = {}, a[kChannels] = {}, b[kChannels] = {};
  if (share.any()) {
    fetch(coefficients.origin, share.row(tiles), origin);
    fetch(coefficients.a, share.row(tiles), a);
    fetch(coefficients.b, share.row(tiles), b);
  }
  float sums[2 * kChannels] = {};
  share.template each<2>(tiles, [&](unsigned at) {
    float values[kValues], d[kValues];
    load<kValues>(x + at, values);
    load<kValues>(dy + at, d);
    for (unsigned v = 0; v < kValues; ++v) {
      const unsigned c = v % kChannels;
      const float off = values[v] - origin[c];
      const float passed = relu && !(affine(off, a[c], b[c]) > 0) ? 0.0F : d[v];
      sums[c] += passed;
      sums[kChannels + c] += passed * off;
    }
  });
  sum_members(tiles, share, sums);
  if (share.member != 0 || !share.any()) return;
  for (unsigned c = 0; c < kChannels; ++c)
    to[(share.row(tiles) + c) * tiles.splits + share.split] = {sums[c], sums[kChannels + c]};
}

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    write_dx(Tiles tiles, Affine coefficients, InputGradient gradient, bool relu,
             const typename L::T* __restrict__ x, const typename L::T* __restrict__ dy,
             typename L::T* __restrict__ dx) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  if (!share.any()) return;
  float origin[kChannels], a[kChannels], b[kChannels], p[kChannels], q[kChannels], r[kChannels];
  fetch(coefficients.origin, share.row(tiles), origin);
  fetch(coefficients.a, share.row(tiles), a);
  fetch(coefficients.b, share.row(tiles), b);
  fetch(gradient.p, share.row(tiles), p);
  fetch(gradient.q, share.row(tiles), q);
  fetch(gradient.r, share.row(tiles), r);
  share.template each_backwards<2>(tiles, [&](unsigned at) {
    float values[kValues], d[kValues];
    load<kValues>(x + at, values);
    load<kValues>(dy + at, d);
    for (unsigned v = 0; v < kValues; ++v) {
      const unsigned c = v % kChannels;
      const float off = values[v] - origin[c];
      const float passed = relu && !(affine(off, a[c], b[c]) > 0) ? 0.0F : d[v];
      values[v] = p[c] * passed + q[c] * off + r[c];
    }
    store<kValues>(values, dx + at);
  });
}

std::size_t rows(const Tiles& tiles) { return std::size_t{tiles.segments} * tiles.channels; }
Buffer three(const Pattern& channels, Memory& memory) { return Buffer(3 * rows(channels.tiles), memory); }
template <class T>
Buffer items(std::size_t n, Memory& memory) {
  return Buffer(n * sizeof(T) / sizeof(float), memory);
}

Affine affine_of(Buffer& buffer) {
  const std::size_t n = buffer.size() / 3;
  return {buffer.data(), buffer.data() + n, buffer.data() + 2 * n};
}
InputGradient input_gradient_of(Buffer& buffer) {
  const std::size_t n = buffer.size() / 3;
  return {buffer.data(), buffer.data() + n, buffer.data() + 2 * n};
}

// Of groups, if their channels are neighbors in memory; else of their channels.
Pattern measured_pattern(const Activation& activation, bool by_sample, int groups) {
  const Shape& shape = activation.shape;
  const int places = shape.height * shape.width;
  if (!by_sample || (is_bf16(activation) && places > 1)) return channel_pattern(activation, by_sample);
  const Shape as_groups{shape.batch, groups, shape.channels / groups, places};
  return make_pattern(is_bf16(activation), false, as_groups, static_cast<unsigned>(shape.batch));
}

}  // namespace

Norm::Norm(Stream& stream, const Activation& activation, bool by_sample, int groups, float epsilon,
           Passes passes, bool relu)
    : stream_(stream),
      relu_(relu),
      measured_(measured_pattern(activation, by_sample, groups)),
      channels_(channel_pattern(activation, by_sample)),
      memory_(stream.device()) {
  const Shape& shape = activation.shape;
  groups_ = {channels_.tiles.segments, static_cast<unsigned>(groups),
             static_cast<unsigned>(shape.channels / groups),
             static_cast<double>(shape.size()) / channels_.tiles.segments / groups, epsilon};
  forward_ = three(channels_, memory_);
  if (!by_sample && !passes.backward) return;  // mean and variance are given
  moments_ = items<Moment>(rows(measured_.tiles) * measured_.tiles.splits, memory_);
  statistics_ = items<Statistics>(std::size_t{groups_.segments} * groups_.groups, memory_);
  if (!passes.backward) return;
  sums_ = items<GradientSums>(rows(channels_.tiles) * channels_.tiles.splits, memory_);
  if (passes.input_gradient) backward_ = three(channels_, memory_);
}

void Norm::forward(const float* scale, const float* shift, const float* x, float* y) {
  measure(x);
  finish_moments(stream_, groups_, measured_, values<Moment>(moments_.data()), scale, shift,
                 affine_of(forward_), values<Statistics>(statistics_.data()));
  apply(x, y);
}

void Norm::forward_with(const float* mean, const float* variance, const float* scale, const float* shift,
                        const float* x, float* y) {
  use_statistics(stream_, groups_, mean, variance, scale, shift, affine_of(forward_));
  apply(x, y);
}

void Norm::measure(const float* x) {
  const Tiles& tiles = measured_.tiles;
  with_lines(measured_, [&]<class L>(L) {
    launch_together(stream_, tiles.blocks(), tiles.threads(), measure_lines<L>, tiles,
                    values<typename L::T>(x), values<Moment>(moments_.data()));
  });
}

void Norm::apply(const float* x, float* y) {
  const Tiles& tiles = channels_.tiles;
  with_lines(channels_, [&]<class L>(L) {
    using T = typename L::T;
    launch(stream_, tiles.blocks(), tiles.threads(), write_y<L>, tiles, affine_of(forward_), relu_,
           values<T>(x), values<T>(y));
  });
}

void Norm::backward(const NormGradients& to, const float* scale, const float* x, const float* dy, float* dx) {
  const Tiles& tiles = channels_.tiles;
  const Affine coefficients = affine_of(forward_);
  const InputGradient gradient = input_gradient_of(backward_);
  with_lines(channels_, [&]<class L>(L) {
    using T = typename L::T;
    launch_together(stream_, tiles.blocks(), tiles.threads(), add_up<L>, tiles, coefficients, relu_,
                    values<T>(x), values<T>(dy), values<GradientSums>(sums_.data()));
  });
  finish_gradient(stream_, groups_, tiles.splits, values<GradientSums>(sums_.data()),
                  values<Statistics>(statistics_.data()), coefficients.origin, scale,
                  dx == nullptr ? nullptr : &gradient, to);
  if (dx == nullptr) return;
  with_lines(channels_, [&]<class L>(L) {
    using T = typename L::T;
    launch(stream_, tiles.blocks(), tiles.threads(), write_dx<L>, tiles, coefficients, gradient, relu_,
           values<T>(x), values<T>(dy), values<T>(dx));
  });
}

std::size_t Norm::workspace_bytes() const {
  return forward_.bytes() + backward_.bytes() + moments_.bytes() + sums_.bytes() + statistics_.bytes();
}

}  // namespace starling::kernels::cuda
