// cuDNN's descriptors as values, in this back end's two formats.
#pragma once

#include <cudnn.h>

#include "kernels/cuda/format.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {

class TensorDescriptor {
 public:
  explicit TensorDescriptor(const Activation& activation) {
    check(cudnnCreateTensorDescriptor(&it_), "cudnnCreateTensorDescriptor");
    const Shape& shape = activation.shape;
    const bool bf16 = is_bf16(activation);
    check(cudnnSetTensor4dDescriptor(it_, bf16 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                     bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT, shape.batch,
                                     shape.channels, shape.height, shape.width),
          "cudnnSetTensor4dDescriptor");
  }
  ~TensorDescriptor() { cudnnDestroyTensorDescriptor(it_); }
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;
  cudnnTensorDescriptor_t get() const { return it_; }

 private:
  cudnnTensorDescriptor_t it_ = nullptr;
};

// Filters [out, in, size, size], which lie as [out, size, size, in] in bfloat16.
class FilterDescriptor {
 public:
  FilterDescriptor(bool bf16, int out, int in, int size) {
    check(cudnnCreateFilterDescriptor(&it_), "cudnnCreateFilterDescriptor");
    check(cudnnSetFilter4dDescriptor(it_, bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT,
                                     bf16 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, out, in, size, size),
          "cudnnSetFilter4dDescriptor");
  }
  ~FilterDescriptor() { cudnnDestroyFilterDescriptor(it_); }
  FilterDescriptor(const FilterDescriptor&) = delete;
  FilterDescriptor& operator=(const FilterDescriptor&) = delete;
  cudnnFilterDescriptor_t get() const { return it_; }

 private:
  cudnnFilterDescriptor_t it_ = nullptr;
};

// Sums in float32; `tensor_cores`: its factors may be rounded for them.
class ConvolutionDescriptor {
 public:
  ConvolutionDescriptor(int padding, int stride, int groups, bool tensor_cores) {
    check(cudnnCreateConvolutionDescriptor(&it_), "cudnnCreateConvolutionDescriptor");
    check(cudnnSetConvolution2dDescriptor(it_, padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(it_, groups), "cudnnSetConvolutionGroupCount");
    check(cudnnSetConvolutionMathType(it_, tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
  }
  ~ConvolutionDescriptor() { cudnnDestroyConvolutionDescriptor(it_); }
  ConvolutionDescriptor(const ConvolutionDescriptor&) = delete;
  ConvolutionDescriptor& operator=(const ConvolutionDescriptor&) = delete;
  cudnnConvolutionDescriptor_t get() const { return it_; }

 private:
  cudnnConvolutionDescriptor_t it_ = nullptr;
};

}  // namespace starling::kernels::cuda
