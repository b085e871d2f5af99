// The linear layer y = x W^T + b, as defined beside kernels::LinearSpec, in plain loops. `weight` is [out,
// in]; `bias` and `dbias` may be null.
#pragma once

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void linear_forward(const LinearSpec&, const T* weight, const T* bias, Images<const T> x, Images<T> y) {
  const int inputs = static_cast<int>(x.shape.sample_size());
  for_each_flat(y.shape, [&](int n, int o) {
    double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[o]);
    for (int k = 0; k < inputs; ++k) sum += static_cast<double>(weight[o * inputs + k]) * x.flat(n, k);
    y.flat(n, o) = static_cast<T>(sum);
  });
}

template <class T>
void linear_backward_data(const LinearSpec& it, const T* weight, Images<const T> dy, Images<T> dx) {
  const int inputs = static_cast<int>(dx.shape.sample_size());
  for_each_flat(dx.shape, [&](int n, int k) {
    double sum = 0;
    for (int o = 0; o < it.features; ++o) sum += static_cast<double>(weight[o * inputs + k]) * dy.flat(n, o);
    dx.flat(n, k) = static_cast<T>(sum);
  });
}

template <class T>
void linear_backward_weight(const LinearSpec& it, Images<const T> x, Images<const T> dy, T* dweight,
                            T* dbias) {
  const int inputs = static_cast<int>(x.shape.sample_size());
  for (int o = 0; o < it.features; ++o) {
    double bias_sum = 0;
    for (int n = 0; n < x.shape.batch; ++n) bias_sum += dy.flat(n, o);
    if (dbias != nullptr) dbias[o] = static_cast<T>(bias_sum);
    for (int k = 0; k < inputs; ++k) {
      double sum = 0;
      for (int n = 0; n < x.shape.batch; ++n) sum += static_cast<double>(dy.flat(n, o)) * x.flat(n, k);
      dweight[o * inputs + k] = static_cast<T>(sum);
    }
  }
}

}  // namespace starling::kernels::reference
