// What is computed value by value: ReLU, GELU, SwiGLU and the sum of two branches, in plain loops.
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

// In double, as defined beside kernels::GeluSpec: the value, and its derivative.
inline double gelu(const GeluSpec& it, double x) {
  if (!it.tanh) return x * normal_distribution(x);
  const double inside = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inside));
}
inline double gelu_slope(const GeluSpec& it, double x) {
  if (!it.tanh) return normal_distribution(x) + x * normal_density(x);
  const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = std::tanh(factor * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * factor * (1 + 3 * 0.044715 * x * x);
}

template <class T>
void gelu_forward(const GeluSpec& it, Images<const T> x, Images<T> y) {
  for_each_flat(x.shape, [&](int n, int k) { y.flat(n, k) = static_cast<T>(gelu(it, x.flat(n, k))); });
}

template <class T>
void gelu_backward(const GeluSpec& it, Images<const T> x, Images<const T> dy, Images<T> dx) {
  for_each_flat(x.shape, [&](int n, int k) {
    dx.flat(n, k) = static_cast<T>(gelu_slope(it, x.flat(n, k)) * dy.flat(n, k));
  });
}

// In double, as defined beside kernels::SwigluSpec.
template <class T>
void swiglu_forward(Images<const T> x, Images<T> y) {
  for_each_flat(y.shape, [&](int n, int k) {
    const double a = x.flat(n, k), b = x.flat(n, y.shape.channels + k);
    y.flat(n, k) = static_cast<T>(a * b / (1 + std::exp(-a)));
  });
}

template <class T>
void swiglu_backward(Images<const T> x, Images<const T> dy, Images<T> dx) {
  for_each_flat(dy.shape, [&](int n, int k) {
    const int other = dy.shape.channels + k;
    const double a = x.flat(n, k), b = x.flat(n, other), d = dy.flat(n, k), s = 1 / (1 + std::exp(-a));
    dx.flat(n, k) = static_cast<T>(d * b * s * (1 + a * (1 - s)));
    dx.flat(n, other) = static_cast<T>(d * a * s);
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
