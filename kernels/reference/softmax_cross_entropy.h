// The loss -log softmax(logits)[label], in plain loops. `logits` is [batch, classes]. Subtracting the largest
// logit first avoids overflow.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "kernels/operation.h"

namespace starling::kernels::reference {

// For the first `count` samples. If `dlogits` is not null, it becomes (softmax - onehot(label)) / count, the
// gradient of the mean loss. REQUIRES: 0 <= labels[n] < classes.
template <class T>
LossValue softmax_cross_entropy(const T* logits, const std::int32_t* labels, int classes, int count,
                                T* dlogits) {
  LossValue value;
  for (int n = 0; n < count; ++n) {
    const T* row = logits + static_cast<std::ptrdiff_t>(n) * classes;
    const int label = labels[n];
    STARLING_CHECK(label >= 0 && label < classes);
    int best = 0;
    for (int c = 1; c < classes; ++c) {
      if (row[c] > row[best]) best = c;
    }
    const double largest = row[best];
    double sum = 0;
    for (int c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    value.sum += std::log(sum) + largest - row[label];
    value.correct += best == label;
    if (dlogits == nullptr) continue;
    T* drow = dlogits + static_cast<std::ptrdiff_t>(n) * classes;
    for (int c = 0; c < classes; ++c) {
      drow[c] = static_cast<T>((std::exp(row[c] - largest) / sum - (c == label ? 1.0 : 0.0)) / count);
    }
  }
  return value;
}

}  // namespace starling::kernels::reference
