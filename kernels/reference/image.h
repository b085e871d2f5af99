// A batch of images by index, for the loops of this folder. Letters: B batch, n its index, C channels, c; H
// height, i; W width, j.
#pragma once

#include <cstddef>

#include "kernels/operation.h"

namespace starling::kernels::reference {

template <class T>
struct Images {
  T* values;
  Shape shape;            // the part in use
  int stored_height = 0;  // rows and columns in memory, at least shape's
  int stored_width = 0;

  T& at(int n, int c, int i, int j) const {
    const auto index =
        ((static_cast<std::ptrdiff_t>(n) * shape.channels + c) * stored_height + i) * stored_width + j;
    return values[index];
  }
  // Element k of sample n, flattened as channel, row, column.
  T& flat(int n, int k) const {
    const int plane = shape.height * shape.width;
    return at(n, k / plane, k % plane / shape.width, k % shape.width);
  }
  bool inside(int i, int j) const { return i >= 0 && j >= 0 && i < shape.height && j < shape.width; }
};

// Calls f(n, c, i, j) for every value, or f(n, k) with the flattened index, in the order of plain memory.
template <class F>
void for_each_value(const Shape& shape, const F& f) {
  for (int n = 0; n < shape.batch; ++n) {
    for (int c = 0; c < shape.channels; ++c) {
      for (int i = 0; i < shape.height; ++i) {
        for (int j = 0; j < shape.width; ++j) f(n, c, i, j);
      }
    }
  }
}
template <class F>
void for_each_flat(const Shape& shape, const F& f) {
  const int size = static_cast<int>(shape.sample_size());
  for (int n = 0; n < shape.batch; ++n) {
    for (int k = 0; k < size; ++k) f(n, k);
  }
}

template <class T>
Images<T> images(T* values, const Shape& shape) {
  return {values, shape, shape.height, shape.width};
}

}  // namespace starling::kernels::reference
