// Convolution, as defined beside kernels::ConvolutionSpec, in plain loops. `weight` is [out, in / groups,
// kernel, kernel]; `bias` and `dbias` may be null. Sums are in double for any T.
#pragma once

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

template <class T>
void convolution_forward(const ConvolutionSpec& it, const T* weight, const T* bias, Images<const T> x,
                         Images<T> y) {
  const int C = x.shape.channels / it.groups, K = it.kernel;
  for_each_value(y.shape, [&](int n, int o, int i, int j) {
    const int first = o / (it.channels / it.groups) * C;
    double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[o]);
    for (int c = 0; c < C; ++c) {
      for (int u = 0; u < K; ++u) {
        for (int v = 0; v < K; ++v) {
          const int row = i * it.stride + u - it.padding, column = j * it.stride + v - it.padding;
          if (!x.inside(row, column)) continue;
          sum += static_cast<double>(weight[((o * C + c) * K + u) * K + v]) * x.at(n, first + c, row, column);
        }
      }
    }
    y.at(n, o, i, j) = static_cast<T>(sum);
  });
}

// dx[n,c,row,column] = sum over all (o,i,j,u,v) that read this pixel of weight[o,c - first(o),u,v]
// dy[n,o,i,j].
template <class T>
void convolution_backward_data(const ConvolutionSpec& it, const T* weight, Images<const T> dy, Images<T> dx) {
  const int C = dx.shape.channels / it.groups, O = it.channels / it.groups, K = it.kernel;
  for_each_value(dx.shape, [&](int n, int c, int row, int column) {
    const int group = c / C;
    double sum = 0;
    for (int u = 0; u < K; ++u) {
      for (int v = 0; v < K; ++v) {
        const int i = row + it.padding - u, j = column + it.padding - v;
        if (i % it.stride != 0 || j % it.stride != 0) continue;
        if (!dy.inside(i / it.stride, j / it.stride) || i < 0 || j < 0) continue;
        for (int o = group * O; o < (group + 1) * O; ++o) {
          sum += static_cast<double>(weight[((o * C + c % C) * K + u) * K + v]) *
                 dy.at(n, o, i / it.stride, j / it.stride);
        }
      }
    }
    dx.at(n, c, row, column) = static_cast<T>(sum);
  });
}

template <class T>
void convolution_backward_weight(const ConvolutionSpec& it, Images<const T> x, Images<const T> dy, T* dweight,
                                 T* dbias) {
  const int C = x.shape.channels / it.groups, K = it.kernel;
  for (int o = 0; o < it.channels; ++o) {
    const int first = o / (it.channels / it.groups) * C;
    double bias_sum = 0;
    for (int n = 0; n < dy.shape.batch; ++n) {
      for (int i = 0; i < it.height; ++i) {
        for (int j = 0; j < it.width; ++j) bias_sum += dy.at(n, o, i, j);
      }
    }
    if (dbias != nullptr) dbias[o] = static_cast<T>(bias_sum);
    for (int c = 0; c < C; ++c) {
      for (int u = 0; u < K; ++u) {
        for (int v = 0; v < K; ++v) {
          double sum = 0;
          for (int n = 0; n < dy.shape.batch; ++n) {
            for (int i = 0; i < it.height; ++i) {
              for (int j = 0; j < it.width; ++j) {
                const int row = i * it.stride + u - it.padding, column = j * it.stride + v - it.padding;
                if (!x.inside(row, column)) continue;
                sum += static_cast<double>(x.at(n, first + c, row, column)) * dy.at(n, o, i, j);
              }
            }
          }
          dweight[((o * C + c) * K + u) * K + v] = static_cast<T>(sum);
        }
      }
    }
  }
}

}  // namespace starling::kernels::reference
