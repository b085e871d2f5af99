// The passes over activations, one value of x (and of dy) at a time as norm.h says.
#include "kernels/cuda/norm.h"

namespace starling::kernels::cuda {
namespace {

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    measure_lines(Tiles tiles, const typename L::T* x, Moment* moments) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  // The pivot is the mean of the members' first values: far from the others it is only if some of them are.
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

// Both passes decide by this whether the ReLU lets a value through.
__device__ inline float affine(float off, float a, float b) {
  return off * a + b;
}

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

std::size_t rows(const Tiles& tiles) {
  return std::size_t{tiles.segments} * tiles.channels;
}
Buffer three(const Pattern& channels, Memory& memory) {
  return Buffer(3 * rows(channels.tiles), memory);
}
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

// Of groups, where they are neighbors in memory; else of their channels.
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
  if (!by_sample && !passes.backward) return;  // all is given
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
