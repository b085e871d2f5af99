// y = a + b, or max(a + b, 0), in plain loops.
#pragma once

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void sum_forward(Images<const T> a, Images<const T> b, bool relu, Images<T> y) {
  const int size = static_cast<int>(a.shape.sample_size());
  for (int n = 0; n < a.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) {
      const T sum = a.flat(n, k) + b.flat(n, k);
      y.flat(n, k) = relu && !(sum > 0) ? T{0} : sum;
    }
  }
}

// da and db may be dy, where their formats are the same.
template <class T>
void sum_backward(Images<const T> y, Images<const T> dy, bool relu, Images<T> da, Images<T> db) {
  const int size = static_cast<int>(y.shape.sample_size());
  for (int n = 0; n < y.shape.batch; ++n) {
    for (int k = 0; k < size; ++k) {
      const T gradient = relu && !(y.flat(n, k) > 0) ? T{0} : dy.flat(n, k);
      da.flat(n, k) = gradient;
      db.flat(n, k) = gradient;
    }
  }
}

}  // namespace starling::kernels::reference
