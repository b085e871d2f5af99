// A warp for each group, or each channel, whose lanes share out what there is to add.
#include "kernels/cuda/norm_finish.h"

#include <cmath>

namespace starling::kernels::cuda {
namespace {

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

// How many moments make a group, and how many values each of them stands for.
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
  const bool real = warp_number() < all;  // the last warps do the last group once more, for nothing
  const unsigned group = real ? warp_number() : all - 1;
  moments += group * entries.each;
  // About one of the means: in double what cancels then leaves digits enough, without a division for each.
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
  const double variance = apart < 0 ? 0.0 : apart;  // rounding may leave less than 0 of equal values
  if (lane == 0) statistics[group] = {mean, variance};
  for (unsigned i = lane; i < groups.channels_each; i += kWarp) {
    const unsigned channel = group % groups.groups * groups.channels_each + i;
    set_affine(to, group * groups.channels_each + i, mean, variance, static_cast<double>(groups.epsilon),
               static_cast<double>(scale[channel]), static_cast<double>(shift[channel]));
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
  // What is left of a group's mean where origin is taken off it: the same for all of its channels.
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
  // Of a single value nothing is left, and p d + r would be nothing but rounding errors.
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
  to.shift[channel] = static_cast<float>(sum_d);
  if (to.mean == nullptr) return;
  const auto [mean, variance] = in.statistics[channel];
  const double values = in.groups.values, unbiased = values > 1 ? variance * (values / (values - 1)) : 0;
  const auto momentum = static_cast<double>(to.momentum);
  to.mean[channel] = static_cast<float>(momentum * (mean - static_cast<double>(to.running_mean[channel])));
  to.variance[channel] =
      static_cast<float>(momentum * (unbiased - static_cast<double>(to.running_variance[channel])));
}

// The first `of_groups` warps do the groups, the others the channels.
__global__ void sums_to_gradient(Sums in, unsigned of_groups, InputGradient dx, NormGradients to) {
  const unsigned warp = warp_number(), channels = in.groups.groups * in.groups.channels_each;
  if (warp < of_groups) return group_gradient(in, warp, true, dx);
  const bool real = warp - of_groups < channels;
  channel_gradient(in, real ? warp - of_groups : channels - 1, real, to);
}

}  // namespace

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

void finish_gradient(Stream& stream, const NormGroups& groups, unsigned splits, const GradientSums* sums,
                     const Statistics* statistics, const float* origin, const float* scale,
                     const InputGradient* dx, const NormGradients& to) {
  const unsigned of_groups = dx == nullptr ? 0 : groups.segments * groups.groups;
  const unsigned channels = groups.groups * groups.channels_each;
  launch_together(stream, blocks_of_warps(of_groups + channels), kThreads, sums_to_gradient,
                  Sums{groups, splits, sums, statistics, origin, scale}, of_groups,
                  dx == nullptr ? InputGradient{} : *dx, to);
}

}  // namespace starling::kernels::cuda
