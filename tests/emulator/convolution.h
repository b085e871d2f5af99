// Convolutions and their two gradients by im2col: a matrix of all values that each output reads.
#pragma once

#include <array>
#include <cstddef>

#include "tests/emulator/number.h"

namespace starling::emulator {

// A four-dimensional layout: batch (or output channels), channels, rows, columns.
struct Tensor {
  Number number = Number::f32;
  std::array<int, 4> extent{};
  std::array<int, 4> stride{};

  std::size_t at(int n, int c, int i, int j) const {
    const auto term = [&](int d, int index) { return static_cast<std::size_t>(index) * stride[d]; };
    return term(0, n) + term(1, c) + term(2, i) + term(3, j);
  }
  // The distance from the first value to past the last.
  std::size_t bytes() const {
    return (at(extent[0] - 1, extent[1] - 1, extent[2] - 1, extent[3] - 1) + 1) * bytes_of(number);
  }
};

// y[n,o,i,j] = the sum over c,u,v of w[o,c,u,v] x[n, first(o) + c, i stride + u - padding, ...].
struct Convolution {
  Tensor x, w, y;
  std::array<int, 2> padding{}, stride{};
  int groups = 1;
  bool tf32 = false;

  // The size of the matrix for one sample and one group.
  std::size_t column_floats() const;

  // The output is alpha * result + beta * output. `columns` is scratch of column_floats() floats.
  void forward(float alpha, const void* x_values, const void* w_values, float* columns, float beta,
               void* y_values) const;
  void backward_data(float alpha, const void* w_values, const void* dy_values, float* columns, float beta,
                     void* dx_values) const;
  void backward_filter(float alpha, const void* x_values, const void* dy_values, float* columns, float beta,
                       void* dw_values) const;
};

}  // namespace starling::emulator
