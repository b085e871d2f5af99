// ReLU and GELU, value by value, in whatever order they are stored.
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {
namespace {

// What an operation does to a value: y = forward(x), dx = slope(x or y) dy.
struct ReluOf {
  static constexpr bool kSlopeFromY = true;
  __device__ static float forward(float x) { return x > 0 ? x : 0.0F; }
  __device__ static float backward(float y, float dy) { return y > 0 ? dy : 0.0F; }
};
struct GeluOf {
  static constexpr bool kSlopeFromY = false;
  // The standard normal distribution function.
  __device__ static float below(float x) { return 0.5F + 0.5F * erff(x * 0.70710678F); }
  __device__ static float forward(float x) { return x * below(x); }
  __device__ static float backward(float x, float dy) {
    return (below(x) + x * 0.39894228F * expf(-0.5F * x * x)) * dy;
  }
};
// The approximation with tanh.
struct TanhGeluOf {
  static constexpr bool kSlopeFromY = false;
  static constexpr float kFactor = 0.79788456F, kCube = 0.044715F;  // sqrt(2/pi)
  __device__ static float bend(float x) { return tanhf(kFactor * (x + kCube * x * x * x)); }
  __device__ static float forward(float x) { return 0.5F * x * (1 + bend(x)); }
  __device__ static float backward(float x, float dy) {
    const float t = bend(x);
    return (0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kFactor * (1 + 3 * kCube * x * x)) * dy;
  }
};

template <class Of, class T>
__global__ void forward_values(unsigned n, const T* x, T* y) {
  const auto some = [&]<unsigned V>(unsigned i, float(&values)[V]) {
    load<V>(x + i, values);
    for (float& value : values) value = Of::forward(value);
    store<V>(values, y + i);
  };
  float values[kWide<T>], value[1];
  each_wide<kWide<T>>(
      n, [&](unsigned i) { some(i, values); }, [&](unsigned i) { some(i, value); });
}

template <class Of, class T>
__global__ void backward_values(unsigned n, const T* from, const T* dy, T* dx) {
  const auto some = [&]<unsigned V>(unsigned i, float(&values)[V], float(&d)[V]) {
    load<V>(from + i, values);
    load<V>(dy + i, d);
    for (unsigned v = 0; v < V; ++v) d[v] = Of::backward(values[v], d[v]);
    store<V>(d, dx + i);
  };
  float values[kWide<T>], d[kWide<T>], value[1], d_value[1];
  each_wide<kWide<T>>(
      n, [&](unsigned i) { some(i, values, d); }, [&](unsigned i) { some(i, value, d_value); });
}

template <class Of>
class Pointwise final : public Operation {
 public:
  Pointwise(Stream& stream, const Activation& input)
      : Operation(activation_like(input, input.shape), 1), stream_(stream), n_(counted(input)) {}

  void forward(const float*, const float* x, float* y) override {
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_ / kWide<T> + 1, kThreads), kThreads, forward_values<Of, T>, n_,
             values<T>(x), values<T>(y));
    });
  }

  void backward(const float*, const float* x, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_ / kWide<T> + 1, kThreads), kThreads, backward_values<Of, T>, n_,
             values<T>(Of::kSlopeFromY ? y : x), values<T>(dy), values<T>(dx));
    });
  }

 private:
  Stream& stream_;
  unsigned n_;
};

}  // namespace

std::unique_ptr<Operation> make_relu(Stream& stream, const Activation& input) {
  return std::make_unique<Pointwise<ReluOf>>(stream, input);
}

std::unique_ptr<Operation> make_gelu(Stream& stream, const GeluSpec& spec, const Activation& input) {
  if (spec.tanh) return std::make_unique<Pointwise<TanhGeluOf>>(stream, input);
  return std::make_unique<Pointwise<GeluOf>>(stream, input);
}

}  // namespace starling::kernels::cuda
