// Average and max pooling, as defined beside kernels::AveragePoolSpec, MaxPoolSpec and GlobalAveragePoolSpec,
// in plain loops. The windows are the output's pixels; dx of pixels that no window reads is 0.
#pragma once

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void average_pool_forward(const AveragePoolSpec& it, Images<const T> x, Images<T> y) {
  for_each_value(y.shape, [&](int n, int c, int i, int j) {
    double sum = 0;
    for (int u = 0; u < it.size; ++u) {
      for (int v = 0; v < it.size; ++v) sum += x.at(n, c, i * it.size + u, j * it.size + v);
    }
    y.at(n, c, i, j) = static_cast<T>(sum / (it.size * it.size));
  });
}

template <class T>
void average_pool_backward(const AveragePoolSpec& it, Images<const T> dy, Images<T> dx) {
  for_each_value(dx.shape, [&](int n, int c, int i, int j) {
    const bool read = dy.inside(i / it.size, j / it.size);
    dx.at(n, c, i, j) =
        read ? dy.at(n, c, i / it.size, j / it.size) / static_cast<T>(it.size * it.size) : T{0};
  });
}

template <class T>
void global_average_pool_forward(Images<const T> x, Images<T> y) {
  const int H = x.shape.height, W = x.shape.width;
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int c = 0; c < x.shape.channels; ++c) {
      double sum = 0;
      for (int i = 0; i < H; ++i) {
        for (int j = 0; j < W; ++j) sum += x.at(n, c, i, j);
      }
      y.at(n, c, 0, 0) = static_cast<T>(sum / (H * W));
    }
  }
}

template <class T>
void global_average_pool_backward(Images<const T> dy, Images<T> dx) {
  const auto pixels = static_cast<T>(dx.shape.height * dx.shape.width);
  for_each_value(dx.shape,
                 [&](int n, int c, int i, int j) { dx.at(n, c, i, j) = dy.at(n, c, 0, 0) / pixels; });
}

// The place in x of the largest value in the window of output (i, j).
struct WindowPlace {
  int row, column;
};
template <class T>
WindowPlace largest(const MaxPoolSpec& it, Images<const T> x, int n, int c, int i, int j) {
  WindowPlace best{i * it.size, j * it.size};
  for (int row = i * it.size; row < (i + 1) * it.size; ++row) {
    for (int column = j * it.size; column < (j + 1) * it.size; ++column) {
      if (x.at(n, c, row, column) > x.at(n, c, best.row, best.column)) best = {row, column};
    }
  }
  return best;
}

template <class T>
void max_pool_forward(const MaxPoolSpec& it, Images<const T> x, Images<T> y) {
  for_each_value(y.shape, [&](int n, int c, int i, int j) {
    const WindowPlace best = largest(it, x, n, c, i, j);
    y.at(n, c, i, j) = x.at(n, c, best.row, best.column);
  });
}

template <class T>
void max_pool_backward(const MaxPoolSpec& it, Images<const T> x, Images<const T> dy, Images<T> dx) {
  for_each_value(dx.shape, [&](int n, int c, int i, int j) { dx.at(n, c, i, j) = T{0}; });
  for_each_value(dy.shape, [&](int n, int c, int i, int j) {
    const WindowPlace best = largest(it, x, n, c, i, j);
    dx.at(n, c, best.row, best.column) = dy.at(n, c, i, j);
  });
}

}  // namespace starling::kernels::reference
