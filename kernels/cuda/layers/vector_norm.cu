// Normalization of each vector by itself: layer normalization (a group normalization with one group) and RMS
// normalization. A warp computes a vector. A float32 input may become a bfloat16 output: the sums of a
// network's branches are float32, and what the branches compute from them need not be.
#include <algorithm>
#include <cmath>

#include "kernels/buffer.h"
#include "kernels/cuda/layers/tiles.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

struct Vectors {
  unsigned count, channels;
  float epsilon;
  bool centered;  // their mean is subtracted
};
// Of a vector: u = (x - mean) inverse.
struct Normal {
  float mean, inverse;
};

// The calling lane's part of its warp's vector. Surplus warps repeat the last vector without effect.
struct VectorShare {
  bool real;
  unsigned row, lane;
  std::size_t begin;

  __device__ explicit VectorShare(const Vectors& vectors) {
    real = warp_number() < vectors.count;
    row = real ? warp_number() : vectors.count - 1;
    lane = threadIdx.x % kWarp;
    begin = static_cast<std::size_t>(row) * vectors.channels;
  }
  // Calls f(the first of V channels); V divides the channels.
  template <unsigned V, class F>
  __device__ void each(const Vectors& vectors, const F& f) const {
    for (unsigned c = lane * V; c < vectors.channels; c += kWarp * V) f(c);
  }
};

template <class X, class Y, unsigned V>
__global__ void normalize_vectors(Vectors vectors, const X* x, const float* scale, const float* shift, Y* y,
                                  Normal* normals) {
  const VectorShare share(vectors);
  x += share.begin;
  y += share.begin;
  Normal normal{0, 0};
  if (vectors.centered) {
    // About the first value: it is far from the others only if some of them are.
    const float pivot = to_float(x[0]);
    float sum = 0;
    share.each<V>(vectors, [&](unsigned c) {
      float values[V];
      load<V>(x + c, values);
      for (const float value : values) sum += value - pivot;
    });
    normal.mean = pivot + warp_sum(sum) / static_cast<float>(vectors.channels);
  }
  float squares = 0;
  share.each<V>(vectors, [&](unsigned c) {
    float values[V];
    load<V>(x + c, values);
    for (const float value : values) squares += (value - normal.mean) * (value - normal.mean);
  });
  normal.inverse = 1 / sqrtf(warp_sum(squares) / static_cast<float>(vectors.channels) + vectors.epsilon);
  if (!share.real) return;
  if (share.lane == 0 && normals != nullptr) normals[share.row] = normal;
  share.each<V>(vectors, [&](unsigned c) {
    float values[V];
    load<V>(x + c, values);
    for (unsigned v = 0; v < V; ++v) {
      values[v] = (values[v] - normal.mean) * normal.inverse * scale[c + v];
      if (shift != nullptr) values[v] += shift[c + v];
    }
    store<V>(values, y + c);
  });
}

// With g = scale dy: dx = (g - mean of g - u mean of (g u)) inverse; without the mean of g if not centered.
template <class X, class Y, unsigned V>
__global__ void vector_gradients(Vectors vectors, const X* x, const float* scale, const Normal* normals,
                                 const Y* dy, X* dx) {
  const VectorShare share(vectors);
  x += share.begin;
  dy += share.begin;
  dx += share.begin;
  const Normal normal = normals[share.row];
  float sum_g = 0, sum_gu = 0;
  share.each<V>(vectors, [&](unsigned c) {
    float values[V], d[V];
    load<V>(x + c, values);
    load<V>(dy + c, d);
    for (unsigned v = 0; v < V; ++v) {
      const float g = scale[c + v] * d[v];
      sum_g += g;
      sum_gu += g * (values[v] - normal.mean) * normal.inverse;
    }
  });
  const auto channels = static_cast<float>(vectors.channels);
  const float mean_g = vectors.centered ? warp_sum(sum_g) / channels : 0,
              mean_gu = warp_sum(sum_gu) / channels;
  if (!share.real) return;
  share.each<V>(vectors, [&](unsigned c) {
    float values[V], d[V];
    load<V>(x + c, values);
    load<V>(dy + c, d);
    for (unsigned v = 0; v < V; ++v) {
      const float u = (values[v] - normal.mean) * normal.inverse;
      values[v] = (scale[c + v] * d[v] - mean_g - u * mean_gu) * normal.inverse;
    }
    store<V>(values, dx + c);
  });
}

// partial: [2][channels, splits], the sums of dy u and of dy.
template <class X, class Y, unsigned V>
__global__ void __launch_bounds__(kThreads, kTogether)
    sum_vectors(Tiles tiles, const X* x, const Normal* normals, const Y* dy, float* partial) {
  const Share<TileLines<X, V, true>> share(tiles);
  float sums[2 * V] = {};
  share.template each<2>(tiles, [&](unsigned at) {
    float values[V], d[V];
    load<V>(x + at, values);
    load<V>(dy + at, d);
    const Normal normal = normals[at / tiles.channels];
    for (unsigned v = 0; v < V; ++v) {
      sums[v] += d[v] * (values[v] - normal.mean) * normal.inverse;
      sums[V + v] += d[v];
    }
  });
  sum_members(tiles, share, sums);
  if (share.member != 0 || !share.any()) return;
  for (unsigned v = 0; v < V; ++v) {
    const unsigned to = (share.channel + v) * tiles.splits + share.split;
    partial[to] = sums[v];
    partial[tiles.channels * tiles.splits + to] = sums[V + v];
  }
}

class VectorNorm final : public Operation {
 public:
  // `shift`, an offset, may be kNone.
  VectorNorm(Stream& stream, bool centered, std::size_t scale, std::size_t shift, float epsilon,
             const Activation& input, Passes passes, bool bf16)
      : Operation(bf16 ? bf16_activation(input.shape) : plain_activation(input.shape), 1),
        stream_(stream),
        scale_(scale),
        shift_(shift),
        in_bf16_(is_bf16(input)),
        out_bf16_(bf16),
        vectors_{static_cast<unsigned>(input.shape.batch), static_cast<unsigned>(input.shape.channels),
                 epsilon, centered},
        pattern_(make_pattern(in_bf16_ && bf16, true, input.shape, 1)),
        memory_(stream.device()) {
    STARLING_CHECK(bf16 || !in_bf16_);
    if (!passes.backward) return;
    normals_ = Buffer(vectors_.count * sizeof(Normal) / sizeof(float), memory_);
    scratch_ = 2 * std::size_t{pattern_.tiles.channels} * pattern_.tiles.splits;
  }

  void forward(const float* parameters, const float* x, float* y) override {
    with_vectors([&]<class X, class Y, unsigned V>() {
      launch_together(stream_, blocks_of_warps(vectors_.count), kThreads, normalize_vectors<X, Y, V>,
                      vectors_, values<X>(x), parameters + scale_,
                      shift_ == kNone ? nullptr : parameters + shift_, values<Y>(y), normals());
    });
  }

  void backward(const float* parameters, const float* x, const float*, float* dy, float* dx,
                float* gradient) override {
    const Tiles& tiles = pattern_.tiles;
    with_vectors([&]<class X, class Y, unsigned V>() {
      launch_together(stream_, tiles.blocks(), tiles.threads(), sum_vectors<X, Y, V>, tiles, values<X>(x),
                      normals(), values<Y>(dy), scratch_memory_);
      if (dx == nullptr) return;
      launch_together(stream_, blocks_of_warps(vectors_.count), kThreads, vector_gradients<X, Y, V>, vectors_,
                      values<X>(x), parameters + scale_, normals(), values<Y>(dy), values<X>(dx));
    });
    add_up_splits(stream_, tiles, scratch_memory_, gradient + scale_);
    if (shift_ != kNone) add_up_splits(stream_, tiles, scratch_memory_ + scratch_ / 2, gradient + shift_);
  }

  std::size_t workspace_bytes() const override { return normals_.bytes(); }
  std::size_t scratch_floats() const override { return scratch_; }
  void set_scratch(float* scratch) override { scratch_memory_ = scratch; }

 private:
  Normal* normals() { return values<Normal>(normals_.data()); }

  // Calls f<type of x, type of y, values at a time>().
  template <class F>
  void with_vectors(const F& f) {
    const auto of = [&]<class X, class Y>(X, Y) {
      if (pattern_.wide) return f.template operator()<X, Y, std::min(kWide<X>, kWide<Y>)>();
      f.template operator()<X, Y, 1>();
    };
    if (in_bf16_) return of(Bfloat16(), Bfloat16());
    if (out_bf16_) return of(float(), Bfloat16());
    of(float(), float());
  }

  Stream& stream_;
  std::size_t scale_, shift_;
  bool in_bf16_, out_bf16_;
  Vectors vectors_;
  Pattern pattern_;  // of the parameters' gradients
  DeviceMemory memory_;
  Buffer normals_;
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_layer_norm(Stream& stream, const GroupNormSpec& spec, const Activation& input,
                                           Passes passes, bool bf16) {
  return std::make_unique<VectorNorm>(stream, true, spec.scale, spec.shift, spec.epsilon, input, passes,
                                      bf16);
}

std::unique_ptr<Operation> make_rms_norm(Stream& stream, const RmsNormSpec& spec, const Activation& input,
                                         Passes passes, bool bf16) {
  return std::make_unique<VectorNorm>(stream, false, spec.scale, kNone, spec.epsilon, input, passes, bf16);
}

}  // namespace starling::kernels::cuda
