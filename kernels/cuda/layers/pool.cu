// Average and max pools. A thread has one window, of one channel or of as many neighboring ones as 16 bytes
// contain. In the backward pass the remaining rows and columns at the end are windows too, with gradient
// zero.
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {
namespace {

struct Windows {
  unsigned samples, channels, height, width, size;  // height x width of the input

  __host__ __device__ unsigned rows(bool whole) const { return (whole ? height : height + size - 1) / size; }
  __host__ __device__ unsigned columns(bool whole) const { return (whole ? width : width + size - 1) / size; }
  // Windows of V channels each.
  unsigned count(bool whole, unsigned values) const {
    return samples * (channels / values) * rows(whole) * columns(whole);
  }
};

// V channels of one window.
template <class T, unsigned V>
struct Window {
  unsigned n, c, i, j;  // output i, j; the first of the channels

  // The windows in the order of memory.
  __device__ Window(const Windows& all, bool whole, unsigned index) {
    const unsigned channels = all.channels / V, rows = all.rows(whole), columns = all.columns(whole);
    unsigned rest = index;
    if constexpr (sizeof(T) < sizeof(float)) {
      c = rest % channels * V;
      rest /= channels;
    }
    j = rest % columns;
    rest /= columns;
    i = rest % rows;
    rest /= rows;
    if constexpr (sizeof(T) == sizeof(float)) {
      c = rest % channels * V;
      rest /= channels;
    }
    n = rest;
  }

  __device__ bool is_whole(const Windows& all) const { return i < all.rows(true) && j < all.columns(true); }
  // The offset of a place's value in the input, and of the window in the output.
  __device__ std::size_t in(const Windows& all, unsigned row, unsigned column) const {
    return at(all, all.height, all.width, row, column);
  }
  __device__ std::size_t out(const Windows& all) const {
    return at(all, all.rows(true), all.columns(true), i, j);
  }
  // Calls f(place in the window, its offset in the input), in reading order, for the places inside the input.
  template <class F>
  __device__ void each(const Windows& all, const F& f) const {
    for (unsigned row = i * all.size; row < (i + 1) * all.size && row < all.height; ++row) {
      for (unsigned column = j * all.size; column < (j + 1) * all.size && column < all.width; ++column)
        f((row - i * all.size) * all.size + column - j * all.size, in(all, row, column));
    }
  }

 private:
  __device__ std::size_t at(const Windows& all, unsigned height, unsigned width, unsigned row,
                            unsigned column) const {
    return Order<T>::at(static_cast<int>(n), static_cast<int>(c), static_cast<int>(row * width + column),
                        static_cast<int>(all.channels), static_cast<int>(height * width));
  }
};

template <class T, unsigned V>
__global__ void average_windows(Windows all, unsigned count, const T* x, T* y) {
  const unsigned threads = gridDim.x * blockDim.x;
  const auto values_of_window = static_cast<float>(all.size * all.size);
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += threads) {
    const Window<T, V> window(all, true, index);
    float sums[V] = {};
    window.each(all, [&](unsigned, std::size_t at) {
      float values[V];
      load<V>(x + at, values);
      for (unsigned v = 0; v < V; ++v) sums[v] += values[v];
    });
    for (float& sum : sums) sum /= values_of_window;
    store<V>(sums, y + window.out(all));
  }
}

template <class T, unsigned V>
__global__ void spread_windows(Windows all, unsigned count, const T* dy, T* dx) {
  const unsigned threads = gridDim.x * blockDim.x;
  const auto values_of_window = static_cast<float>(all.size * all.size);
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += threads) {
    const Window<T, V> window(all, false, index);
    float d[V] = {};
    if (window.is_whole(all)) load<V>(dy + window.out(all), d);
    for (float& value : d) value /= values_of_window;
    window.each(all, [&](unsigned, std::size_t at) { store<V>(d, dx + at); });
  }
}

// The window's largest values and their places in it.
template <class T, unsigned V>
__device__ void find_largest(const Windows& all, const Window<T, V>& window, const T* x, float (&largest)[V],
                             unsigned (&places)[V]) {
  window.each(all, [&](unsigned place, std::size_t at) {
    float values[V];
    load<V>(x + at, values);
    for (unsigned v = 0; v < V; ++v) {
      if (place != 0 && !(values[v] > largest[v])) continue;
      largest[v] = values[v];
      places[v] = place;
    }
  });
}

template <class T, unsigned V>
__global__ void largest_of_windows(Windows all, unsigned count, const T* x, T* y) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += threads) {
    const Window<T, V> window(all, true, index);
    float largest[V] = {};
    unsigned places[V] = {};
    find_largest(all, window, x, largest, places);
    store<V>(largest, y + window.out(all));
  }
}

template <class T, unsigned V>
__global__ void pass_to_largest(Windows all, unsigned count, const T* x, const T* dy, T* dx) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += threads) {
    const Window<T, V> window(all, false, index);
    float largest[V] = {}, d[V] = {};
    unsigned places[V] = {};
    if (window.is_whole(all)) {
      find_largest(all, window, x, largest, places);
      load<V>(dy + window.out(all), d);
    }
    window.each(all, [&](unsigned place, std::size_t at) {
      float values[V];
      for (unsigned v = 0; v < V; ++v) values[v] = place == places[v] ? d[v] : 0.0F;
      store<V>(values, dx + at);
    });
  }
}

// Channels are adjacent only in bfloat16.
template <class F>
void with_values(const Activation& activation, const F& f) {
  if (!is_bf16(activation)) return f.template operator()<float, 1>();
  if (activation.shape.channels % kWide<Bfloat16> == 0)
    return f.template operator()<Bfloat16, kWide<Bfloat16>>();
  f.template operator()<Bfloat16, 1>();
}

class Pool : public Operation {
 public:
  Pool(Stream& stream, int size, const Activation& input, const Shape& out)
      : Operation(activation_like(input, out), 1),
        stream_(stream),
        input_(input),
        windows_{static_cast<unsigned>(input.shape.batch), static_cast<unsigned>(input.shape.channels),
                 static_cast<unsigned>(input.shape.height), static_cast<unsigned>(input.shape.width),
                 static_cast<unsigned>(size)} {
    counted(input);
  }

 protected:
  // Starts a kernel on all windows; `whole`: only on complete ones.
  template <class... Parameters, class... Arguments>
  void run(bool whole, unsigned values, void (*kernel)(Windows, unsigned, Parameters...),
           Arguments... arguments) {
    const unsigned count = windows_.count(whole, values);
    launch(stream_, blocks_for(count, kThreads), kThreads, kernel, windows_, count, arguments...);
  }

  Stream& stream_;
  Activation input_;
  Windows windows_;
};

class DeviceAveragePool final : public Pool {
 public:
  using Pool::Pool;

  void forward(const float*, const float* x, float* y) override {
    with_values(input_, [&]<class T, unsigned V>() {
      run(true, V, average_windows<T, V>, values<T>(x), values<T>(y));
    });
  }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    with_values(input_, [&]<class T, unsigned V>() {
      run(false, V, spread_windows<T, V>, values<T>(dy), values<T>(dx));
    });
  }
};

// The gradient searches the largest value again, which is cheaper than storing its place.
class DeviceMaxPool final : public Pool {
 public:
  using Pool::Pool;

  void forward(const float*, const float* x, float* y) override {
    with_values(input_, [&]<class T, unsigned V>() {
      run(true, V, largest_of_windows<T, V>, values<T>(x), values<T>(y));
    });
  }
  void backward(const float*, const float* x, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    with_values(input_, [&]<class T, unsigned V>() {
      run(false, V, pass_to_largest<T, V>, values<T>(x), values<T>(dy), values<T>(dx));
    });
  }
};

}  // namespace

std::unique_ptr<Operation> make_average_pool(Stream& stream, const AveragePoolSpec& spec,
                                             const Activation& input) {
  return std::make_unique<DeviceAveragePool>(stream, spec.size, input, output_shape(spec, input.shape));
}

std::unique_ptr<Operation> make_max_pool(Stream& stream, const MaxPoolSpec& spec, const Activation& input) {
  return std::make_unique<DeviceMaxPool>(stream, spec.size, input, output_shape(spec, input.shape));
}

}  // namespace starling::kernels::cuda
