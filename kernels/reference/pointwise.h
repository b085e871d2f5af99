// What is computed value by value: ReLU, GELU and the sum of two branches, in plain loops.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void relu_forward(Images<const T> x, Images<T> y) {
  for_each_flat(x.shape, [&](int n, int k) { y.flat(n, k) = x.flat(n, k) > 0 ? x.flat(n, k) : T{0}; });
}

// The gradient follows from y, so x need not be kept.
template <class T>
void relu_backward(Images<const T> y, Images<const T> dy, Images<T> dx) {
  for_each_flat(y.shape, [&](int n, int k) { dx.flat(n, k) = y.flat(n, k) > 0 ? dy.flat(n, k) : T{0}; });
}

// The standard normal distribution function, and its density.
inline double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
inline double normal_density(double x) {
  return std::exp(-0.5 * x * x) * 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
}

// In double, as defined beside kernels::GeluSpec.
template <class T>
void gelu_forward(Images<const T> x, Images<T> y) {
  for_each_flat(x.shape, [&](int n, int k) {
    const double value = x.flat(n, k);
    y.flat(n, k) = static_cast<T>(value * normal_distribution(value));
  });
}

template <class T>
void gelu_backward(Images<const T> x, Images<const T> dy, Images<T> dx) {
  for_each_flat(x.shape, [&](int n, int k) {
    const double value = x.flat(n, k);
    const double slope = normal_distribution(value) + value * normal_density(value);
    dx.flat(n, k) = static_cast<T>(slope * dy.flat(n, k));
  });
}

// y = a + b, or max(a + b, 0).
template <class T>
void sum_forward(Images<const T> a, Images<const T> b, bool relu, Images<T> y) {
  for_each_flat(a.shape, [&](int n, int k) {
    const T sum = a.flat(n, k) + b.flat(n, k);
    y.flat(n, k) = relu && !(sum > 0) ? T{0} : sum;
  });
}

// da and db may be dy if they have its format.
template <class T>
void sum_backward(Images<const T> y, Images<const T> dy, bool relu, Images<T> da, Images<T> db) {
  for_each_flat(y.shape, [&](int n, int k) {
    da.flat(n, k) = db.flat(n, k) = relu && !(y.flat(n, k) > 0) ? T{0} : dy.flat(n, k);
  });
}

}  // namespace starling::kernels::reference
