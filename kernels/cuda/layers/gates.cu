// SwiGLU: y = a sigmoid(a) b for the two halves of each vector.
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {
namespace {

// Calls f(the place of a in x, the place in y) for V values at a time; V divides `half`.
template <unsigned V, class F>
__device__ void each_gate(unsigned n, unsigned half, const F& f) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n / V; i += threads) {
    const unsigned at = i * V, row = at / half;
    f(at + row * half, at);
  }
}

template <class T, unsigned V>
__global__ void gate_values(unsigned n, unsigned half, const T* x, T* y) {
  each_gate<V>(n, half, [&](unsigned at, unsigned to) {
    float a[V], b[V];
    load<V>(x + at, a);
    load<V>(x + at + half, b);
    for (unsigned v = 0; v < V; ++v) a[v] = a[v] / (1 + expf(-a[v])) * b[v];
    store<V>(a, y + to);
  });
}

template <class T, unsigned V>
__global__ void gate_gradients(unsigned n, unsigned half, const T* x, const T* dy, T* dx) {
  each_gate<V>(n, half, [&](unsigned at, unsigned to) {
    float a[V], b[V], d[V];
    load<V>(x + at, a);
    load<V>(x + at + half, b);
    load<V>(dy + to, d);
    for (unsigned v = 0; v < V; ++v) {
      const float s = 1 / (1 + expf(-a[v])), swish = a[v] * s;
      a[v] = d[v] * b[v] * (s + swish * (1 - s));
      b[v] = d[v] * swish;
    }
    store<V>(a, dx + at);
    store<V>(b, dx + at + half);
  });
}

class DeviceSwiglu final : public Operation {
 public:
  DeviceSwiglu(Stream& stream, const Activation& input)
      : Operation(activation_like(input, output_shape(SwigluSpec{}, input.shape)), 1),
        stream_(stream),
        n_(counted(output())),
        half_(static_cast<unsigned>(output().shape.channels)) {
    counted(input);
  }

  void forward(const float*, const float* x, float* y) override {
    with_vectors([&]<class T, unsigned V>() {
      launch(stream_, blocks_for(n_ / V, kThreads), kThreads, gate_values<T, V>, n_, half_, values<T>(x),
             values<T>(y));
    });
  }

  void backward(const float*, const float* x, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    with_vectors([&]<class T, unsigned V>() {
      launch(stream_, blocks_for(n_ / V, kThreads), kThreads, gate_gradients<T, V>, n_, half_, values<T>(x),
             values<T>(dy), values<T>(dx));
    });
  }

 private:
  template <class F>
  void with_vectors(const F& f) {
    with_type(output(), [&]<class T>(T) {
      if (half_ % kWide<T> == 0) {
        f.template operator()<T, kWide<T>>();
      } else {
        f.template operator()<T, 1>();
      }
    });
  }

  Stream& stream_;
  unsigned n_, half_;  // values of y, of a vector of y
};

}  // namespace

std::unique_ptr<Operation> make_swiglu(Stream& stream, const Activation& input) {
  return std::make_unique<DeviceSwiglu>(stream, input);
}

}  // namespace starling::kernels::cuda
