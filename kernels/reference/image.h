// A batch of images to read or write by index: the arrays that the loops of this folder work on. Letters: B
// batch, n its index, C channels, c; H height, i; W width, j.
#pragma once

#include <cstddef>

#include "kernels/operation.h"

namespace starling::kernels::reference {

template <class T>
struct Images {
  T* values;
  Shape shape;            // what there is to see
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

template <class T>
Images<T> images(T* values, const Shape& shape) {
  return {values, shape, shape.height, shape.width};
}

}  // namespace starling::kernels::reference
