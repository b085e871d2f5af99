// Embeddings and learned positions, as defined beside kernels::EmbeddingSpec and PositionSpec, in plain
// loops.
#pragma once

#include "base/check.h"
#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
std::ptrdiff_t row_of(const EmbeddingSpec& it, T token) {
  const auto number = static_cast<std::ptrdiff_t>(token);
  STARLING_CHECK(number >= 0 && number < it.tokens);
  return number * it.features;
}

template <class T>
void embedding_forward(const EmbeddingSpec& it, const T* weight, Images<const T> x, Images<T> y) {
  for_each_flat(y.shape, [&](int n, int c) { y.flat(n, c) = weight[row_of(it, x.flat(n, 0)) + c]; });
}

// Adds to `dweight` if the weight is shared, else replaces it.
template <class T>
void embedding_backward(const EmbeddingSpec& it, Images<const T> x, Images<const T> dy, T* dweight) {
  for (std::ptrdiff_t i = 0; !it.shared && i < std::ptrdiff_t{it.tokens} * it.features; ++i)
    dweight[i] = T{0};
  for_each_flat(dy.shape, [&](int n, int c) { dweight[row_of(it, x.flat(n, 0)) + c] += dy.flat(n, c); });
}

template <class T>
void position_forward(const PositionSpec& it, const T* weight, Images<const T> x, Images<T> y) {
  for_each_flat(y.shape, [&](int n, int c) {
    y.flat(n, c) = x.flat(n, c) + weight[n % it.context * y.shape.channels + c];
  });
}

// dx, if it is not null, is dy.
template <class T>
void position_backward(const PositionSpec& it, Images<const T> dy, Images<T> dx, T* dweight) {
  const int channels = dy.shape.channels;
  for (int i = 0; i < it.context; ++i) {
    for (int c = 0; c < channels; ++c) {
      double sum = 0;
      for (int n = i; n < dy.shape.batch; n += it.context) sum += dy.flat(n, c);
      dweight[i * channels + c] = static_cast<T>(sum);
    }
  }
  if (dx.values == nullptr) return;
  for_each_flat(dy.shape, [&](int n, int c) { dx.flat(n, c) = dy.flat(n, c); });
}

}  // namespace starling::kernels::reference
