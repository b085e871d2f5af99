// Sums of two branches, and of two gradients. If both branches have the sum's format, 16 bytes at a time; a
// network's input, which may be a window or have another number format, value by value.
#include "base/check.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/strides.h"

namespace starling::kernels::cuda {
namespace {

template <class T>
__global__ void add_values(unsigned n, const T* a, const T* b, bool relu, T* y) {
  const auto some = [&]<unsigned V>(unsigned i, float(&first)[V], float(&second)[V]) {
    load<V>(a + i, first);
    load<V>(b + i, second);
    for (unsigned v = 0; v < V; ++v) {
      const float sum = first[v] + second[v];
      first[v] = relu && !(sum > 0) ? 0.0F : sum;
    }
    store<V>(first, y + i);
  };
  float first[kWide<T>], second[kWide<T>], one[1], other[1];
  each_wide<kWide<T>>(
      n, [&](unsigned i) { some(i, first, second); }, [&](unsigned i) { some(i, one, other); });
}

// da null: only db.
template <class T>
__global__ void pass_values(unsigned n, const T* y, const T* dy, bool relu, T* da, T* db) {
  const auto some = [&]<unsigned V>(unsigned i, float(&d)[V], float(&values)[V]) {
    load<V>(dy + i, d);
    if (relu) {
      load<V>(y + i, values);
      for (unsigned v = 0; v < V; ++v) d[v] = values[v] > 0 ? d[v] : 0.0F;
    }
    if (da != nullptr) store<V>(d, da + i);
    store<V>(d, db + i);
  };
  float d[kWide<T>], values[kWide<T>], one[1], value[1];
  each_wide<kWide<T>>(
      n, [&](unsigned i) { some(i, d, values); }, [&](unsigned i) { some(i, one, value); });
}

template <class Y, class B>
__global__ void add_anywhere(Walk walk, Strides at_a, const Y* a, Strides at_b, const B* b, bool relu, Y* y) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < walk.n; index += threads) {
    const auto [n, c, i, j] = walk.place(index);
    const float sum = to_float(a[at_a.at(n, c, i, j)]) + to_float(b[at_b.at(n, c, i, j)]);
    y[index] = from_float<Y>(relu && !(sum > 0) ? 0.0F : sum);
  }
}

// Values that the sum did not read have no gradient.
template <class Y, class To>
__global__ void pass_anywhere(Walk walk, Extents window, Strides at_y, const Y* y, const Y* dy, bool relu,
                              To* to) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < walk.n; index += threads) {
    const auto [n, c, i, j] = walk.place(index);
    float d = 0;
    if (i < window.height && j < window.width) {
      const unsigned at = at_y.at(n, c, i, j);
      if (!relu || to_float(y[at]) > 0) d = to_float(dy[at]);
    }
    to[index] = from_float<To>(d);
  }
}

class DenseSum final : public Sum {
 public:
  DenseSum(Stream& stream, const Activation& y, bool relu)
      : Sum(y), stream_(stream), relu_(relu), n_(counted(y)) {}

  void forward(const float* a, const float* b, float* y) override {
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_ / kWide<T> + 1, kThreads), kThreads, add_values<T>, n_, values<T>(a),
             values<T>(b), relu_, values<T>(y));
    });
  }
  void backward(const float* y, const float* dy, float* da, float* db) override {
    if (!relu_ && da == dy) da = nullptr;
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_ / kWide<T> + 1, kThreads), kThreads, pass_values<T>, n_, values<T>(y),
             values<T>(dy), relu_, values<T>(da), values<T>(db));
    });
  }

 private:
  Stream& stream_;
  bool relu_;
  unsigned n_;
};

class MixedSum final : public Sum {
 public:
  MixedSum(Stream& stream, const Activation& a, const Activation& b, const Activation& y, bool relu)
      : Sum(y), stream_(stream), a_(a), b_(b), relu_(relu) {}

  void forward(const float* a, const float* b, float* y) override {
    const Walk walk = walk_used(output());
    with_types(output(), b_, [&]<class Y, class B>(Y, B) {
      launch(stream_, blocks_for(walk.n, kThreads), kThreads, add_anywhere<Y, B>, walk, strides_of(a_),
             values<Y>(a), strides_of(b_), values<B>(b), relu_, values<Y>(y));
    });
  }
  // db first, because da may be dy.
  void backward(const float* y, const float* dy, float* da, float* db) override {
    pass(b_, y, dy, db);
    pass(a_, y, dy, da);
  }

 private:
  void pass(const Activation& to, const float* y, const float* dy, float* gradient) {
    const Walk walk = walk_stored(to);
    with_types(output(), to, [&]<class Y, class To>(Y, To) {
      launch(stream_, blocks_for(walk.n, kThreads), kThreads, pass_anywhere<Y, To>, walk,
             used_extents(output()), strides_of(output()), values<Y>(y), values<Y>(dy), relu_,
             values<To>(gradient));
    });
  }

  Stream& stream_;
  Activation a_, b_;
  bool relu_;
};

bool is_window(const Activation& activation) {
  return as_plain(activation) != nullptr && !is_dense_plain(activation);
}

}  // namespace

std::unique_ptr<Sum> make_sum(Stream& stream, const Activation& a, const Activation& b, bool relu) {
  STARLING_CHECK(a.shape == b.shape);
  const Activation y = is_window(a) ? plain_activation(a.shape) : a;
  if (is_window(a) || is_window(b) || is_bf16(a) != is_bf16(b))
    return std::make_unique<MixedSum>(stream, a, b, y, relu);
  return std::make_unique<DenseSum>(stream, y, relu);
}

void accumulate(Stream& stream, const Activation& activation, float* gradient, const float* more) {
  const unsigned n = counted(activation);
  with_type(activation, [&]<class T>(T) {
    launch(stream, blocks_for(n / kWide<T> + 1, kThreads), kThreads, add_values<T>, n, values<T>(gradient),
           values<T>(more), false, values<T>(gradient));
  });
}

}  // namespace starling::kernels::cuda
