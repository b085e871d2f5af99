// y = x Phi(x), as defined beside kernels::Gelu, in a plain loop and in double.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

// The standard normal distribution function, and its density.
inline double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
inline double normal_density(double x) {
  return std::exp(-0.5 * x * x) * 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
}

template <class T>
void gelu_forward(Images<const T> x, Images<T> y) {
  const int size = static_cast<int>(x.shape.sample_size());
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) {
      const double value = x.flat(n, k);
      y.flat(n, k) = static_cast<T>(value * normal_distribution(value));
    }
  }
}

template <class T>
void gelu_backward(Images<const T> x, Images<const T> dy, Images<T> dx) {
  const int size = static_cast<int>(x.shape.sample_size());
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) {
      const double value = x.flat(n, k);
      const double slope = normal_distribution(value) + value * normal_density(value);
      dx.flat(n, k) = static_cast<T>(slope * dy.flat(n, k));
    }
  }
}

}  // namespace starling::kernels::reference
