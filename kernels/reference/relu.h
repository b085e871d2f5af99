// y = max(x, 0), in a plain loop. The gradient is known from y alone, so x need not be kept.
#pragma once

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void relu_forward(Images<const T> x, Images<T> y) {
  const int size = static_cast<int>(x.shape.sample_size());
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) y.flat(n, k) = x.flat(n, k) > 0 ? x.flat(n, k) : T{0};
  }
}

template <class T>
void relu_backward(Images<const T> y, Images<const T> dy, Images<T> dx) {
  const int size = static_cast<int>(y.shape.sample_size());
  for (int n = 0; n < y.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) dx.flat(n, k) = y.flat(n, k) > 0 ? dy.flat(n, k) : T{0};
  }
}

}  // namespace starling::kernels::reference
