// cuDNN's convolutions as work of the handle's stream. All algorithms are the same, need a workspace, and use
// all of it. Inconsistent arguments give CUDNN_STATUS_BAD_PARAM.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "tests/emulator/calls.h"
#include "tests/emulator/captures.h"
#include "tests/emulator/convolution.h"
#include "tests/emulator/device.h"
#include "tests/emulator/enqueue.h"
#include "tests/emulator/stream.h"

namespace emulator = starling::emulator;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  std::optional<emulator::Tensor> tensor;  // null until it is set
};

struct cudnnFilterStruct {
  std::optional<emulator::Tensor> tensor;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};

struct cudnnConvolutionStruct {
  bool set = false;
  int padding[2] = {0, 0}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using emulator::Convolution;
using emulator::Number;
using emulator::Tensor;

thread_local std::string t_sentence;  // why the thread's last call failed

cudnnStatus_t fail(cudnnStatus_t status, const char* sentence) {
  t_sentence = sentence;
  return status;
}

cudnnStatus_t bad(const char* sentence) { return fail(CUDNN_STATUS_BAD_PARAM, sentence); }

std::optional<Number> number_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_FLOAT) return Number::f32;
  if (type == CUDNN_DATA_BFLOAT16) return Number::bf16;
  return std::nullopt;
}

cudnnStatus_t set(std::optional<Tensor>& tensor, cudnnDataType_t type, std::array<int, 4> extent,
                  std::array<int, 4> stride) {
  const auto number = number_of(type);
  if (!number) return fail(CUDNN_STATUS_NOT_SUPPORTED, "the emulator knows float and bfloat16");
  const auto positive = [](const std::array<int, 4>& a) {
    return std::all_of(a.begin(), a.end(), [](int i) { return i > 0; });
  };
  if (!positive(extent) || !positive(stride)) return bad("an extent or a stride is not positive");
  tensor = Tensor{*number, extent, stride};
  return CUDNN_STATUS_SUCCESS;
}

std::array<int, 4> strides(cudnnTensorFormat_t format, int c, int h, int w) {
  return format == CUDNN_TENSOR_NHWC ? std::array{h * w * c, 1, w * c, c}
                                     : std::array{c * h * w, h * w, w, 1};
}

int output_extent(int in, int kernel, int padding, int stride) {
  return (in + 2 * padding - kernel) / stride + 1;
}

// Combines the descriptors, or reports why they are inconsistent.
cudnnStatus_t compose(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                      cudnnTensorDescriptor_t y, Convolution& made) {
  if (x == nullptr || w == nullptr || c == nullptr || y == nullptr) return bad("a descriptor is null");
  if (!x->tensor || !w->tensor || !c->set || !y->tensor) return bad("a descriptor was never set");
  made = {*x->tensor, *w->tensor, *y->tensor, {c->padding[0], c->padding[1]}, {c->stride[0], c->stride[1]},
          c->groups,  false};
  if (c->mode != CUDNN_CROSS_CORRELATION || c->dilation[0] != 1 || c->dilation[1] != 1 ||
      c->compute != CUDNN_DATA_FLOAT) {
    return fail(CUDNN_STATUS_NOT_SUPPORTED, "the emulator correlates, without dilation, in float");
  }
  if (made.x.number != made.w.number || made.x.number != made.y.number) {
    return bad("input, filter and output are not of one type");
  }
  // Float convolutions use TF32 unless it is disabled.
  made.tf32 = made.x.number == Number::f32 && c->math != CUDNN_FMA_MATH;
  const auto &in = made.x.extent, &kernel = made.w.extent, &out = made.y.extent;
  if (in[1] % c->groups != 0 || kernel[0] % c->groups != 0)
    return bad("the groups do not divide the channels");
  if (kernel[1] * c->groups != in[1])
    return bad("the filter's channels are not those of a group of the input");
  if (out[0] != in[0]) return bad("the batches of input and output differ");
  if (out[1] != kernel[0]) return bad("the output's channels are not the filter's");
  for (int d = 0; d < 2; ++d) {
    if (out[d + 2] != output_extent(in[d + 2], kernel[d + 2], c->padding[d], c->stride[d])) {
      return bad("the output's height or width is not what the convolution makes of the input");
    }
  }
  const auto by_channel = [](const Tensor& t) { return t.stride[1] == 1 || t.extent[1] == 1; };
  if (w->format == CUDNN_TENSOR_NHWC && (!by_channel(made.x) || !by_channel(made.y))) {
    return fail(CUDNN_STATUS_NOT_SUPPORTED, "a filter in NHWC wants input and output in NHWC");
  }
  return CUDNN_STATUS_SUCCESS;
}

std::size_t workspace_bytes(const Convolution& convolution) {
  return convolution.column_floats() * sizeof(float);
}

cudnnStatus_t check_place(const void* p, std::size_t bytes, std::size_t alignment, const char* sentence) {
  if (!emulator::on_device(p, bytes) || reinterpret_cast<std::uintptr_t>(p) % alignment != 0)
    return bad(sentence);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t begin(cudnnHandle_t handle) {
  if (handle == nullptr) return bad("the handle is null");
  if (emulator::begin_call() != cudaSuccess) return fail(CUDNN_STATUS_EXECUTION_FAILED, "the device is lost");
  return CUDNN_STATUS_SUCCESS;
}

// One of the three passes: run(convolution, alpha, columns, beta) executes it in stream order.
struct Pass {
  cudnnTensorDescriptor_t x;
  const void* x_values;
  cudnnFilterDescriptor_t w;
  const void* w_values;
  cudnnTensorDescriptor_t y;
  const void* y_values;
};

template <class F>
cudnnStatus_t enqueue(cudnnHandle_t handle, cudnnConvolutionDescriptor_t descriptor, const Pass& pass,
                      const void* alpha, const void* beta, void* workspace, std::size_t bytes, const F& run) {
  Convolution convolution;
  if (const auto status = begin(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (const auto status = compose(pass.x, pass.w, descriptor, pass.y, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const std::size_t wanted = workspace_bytes(convolution);
  if (bytes < wanted) return bad("the workspace is smaller than was asked for");
  const std::size_t alignment = bytes_of(convolution.x.number);
  for (const auto status :
       {check_place(pass.x_values, convolution.x.bytes(), alignment, "the input does not lie on the device"),
        check_place(pass.w_values, convolution.w.bytes(), alignment, "the filter does not lie on the device"),
        check_place(pass.y_values, convolution.y.bytes(), alignment, "the output does not lie on the device"),
        check_place(workspace, wanted, 16, "the workspace does not lie on the device")}) {
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  const cudaError_t status = emulator::enqueue(
      handle->stream, [=, a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta)] {
        std::memset(workspace, 0xff, wanted);
        run(convolution, a, static_cast<float*>(workspace), b);
      });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS
                               : fail(CUDNN_STATUS_EXECUTION_FAILED, "the stream takes no work");
}

cudnnStatus_t tell_workspace(cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                             cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y, size_t* bytes) {
  Convolution convolution;
  if (const auto status = begin(handle); status != CUDNN_STATUS_SUCCESS) return status;
  const auto status = compose(x, w, c, y, convolution);
  if (status == CUDNN_STATUS_SUCCESS) *bytes = workspace_bytes(convolution);
  return status;
}

// The first entries of `algorithms`, fastest first; the very last is one that fails to run.
template <class Performance, class Algorithm, std::size_t kCount>
cudnnStatus_t tell_algorithms(cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                              cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y,
                              const Algorithm (&algorithms)[kCount], int wanted, int* count,
                              Performance* answers) {
  std::size_t bytes = 0;
  if (const auto status = tell_workspace(handle, x, w, c, y, &bytes); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (wanted < 1) return bad("no algorithm was asked for");
  *count = std::min(wanted, static_cast<int>(kCount));
  for (int i = 0; i < *count; ++i) {
    answers[i] = {};
    answers[i].algo = algorithms[i];
    answers[i].status = CUDNN_STATUS_SUCCESS;
    answers[i].time = static_cast<float>(i + 1);
    answers[i].memory = bytes;
    answers[i].determinism = CUDNN_DETERMINISTIC;
    answers[i].mathType = c->math;
  }
  if (*count == static_cast<int>(kCount)) answers[kCount - 1].status = CUDNN_STATUS_NOT_SUPPORTED;
  return CUDNN_STATUS_SUCCESS;
}

// Simulates trying algorithms, which overwrites their outputs.
cudnnStatus_t spoil(cudnnHandle_t handle, const std::optional<Tensor>& tensor, void* values) {
  if (emulator::check_no_capture() != cudaSuccess) {
    return fail(CUDNN_STATUS_EXECUTION_FAILED, "algorithms are not tried amid a capture");
  }
  if (!emulator::on_device(values, tensor->bytes())) return bad("what is written does not lie on the device");
  emulator::enqueue(handle->stream, [t = *tensor, values] {
    for (int n = 0; n < t.extent[0]; ++n) {
      for (int c = 0; c < t.extent[1]; ++c) {
        for (int i = 0; i < t.extent[2]; ++i) {
          for (int j = 0; j < t.extent[3]; ++j) {
            store(t.number, values, t.at(n, c, i, j), std::numeric_limits<float>::quiet_NaN());
          }
        }
      }
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

constexpr cudnnConvolutionFwdAlgo_t kForward[] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_FFT};
constexpr cudnnConvolutionBwdDataAlgo_t kBackwardData[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                                           CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                                                           CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT};
constexpr cudnnConvolutionBwdFilterAlgo_t kBackwardFilter[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                                                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT};

template <class T>
cudnnStatus_t create(T** made) {
  *made = new T;
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t destroy(T* p) {
  delete p;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "a status that the emulator does not report";
  }
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (size > 0) std::snprintf(message, size, "%s", t_sentence.c_str());
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (emulator::begin_call() != cudaSuccess || emulator::check_no_capture() != cudaSuccess) {
    return fail(CUDNN_STATUS_NOT_INITIALIZED, "the device is lost, or a stream is captured");
  }
  return create(handle);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy(handle); }

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const auto status = begin(handle);
  if (status == CUDNN_STATUS_SUCCESS) handle->stream = stream;
  return status;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) { return create(made); }

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) { return destroy(descriptor); }

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return set(descriptor->tensor, type, {n, c, h, w}, strides(format, c, h, w));
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int n,
                                           int c, int h, int w, int n_stride, int c_stride, int h_stride,
                                           int w_stride) {
  return set(descriptor->tensor, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride});
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) { return create(made); }

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) { return destroy(descriptor); }

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  descriptor->format = format;
  return set(descriptor->tensor, type, {k, c, h, w}, strides(format, c, h, w));
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) { return create(made); }

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(descriptor);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) {
    return bad("a padding is negative, or a stride or a dilation not positive");
  }
  descriptor->set = true;
  descriptor->padding[0] = pad_h;
  descriptor->padding[1] = pad_w;
  descriptor->stride[0] = stride_h;
  descriptor->stride[1] = stride_w;
  descriptor->dilation[0] = dilation_h;
  descriptor->dilation[1] = dilation_w;
  descriptor->mode = mode;
  descriptor->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  if (groups < 1) return bad("there is no group");
  descriptor->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                    const cudnnTensorDescriptor_t input,
                                                    const cudnnFilterDescriptor_t filter, int* n, int* c,
                                                    int* h, int* w) {
  if (!convolution->set || !input->tensor || !filter->tensor) return bad("a descriptor was never set");
  const auto &in = input->tensor->extent, &kernel = filter->tensor->extent;
  if (kernel[1] * convolution->groups != in[1]) return bad("the filter's channels do not fit the input's");
  *n = in[0];
  *c = kernel[0];
  *h = output_extent(in[2], kernel[2], convolution->padding[0], convolution->stride[0]);
  *w = output_extent(in[3], kernel[3], convolution->padding[1], convolution->stride[1]);
  return *h > 0 && *w > 0 ? CUDNN_STATUS_SUCCESS : bad("the filter is larger than the input");
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t c,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t, size_t* bytes) {
  return tell_workspace(handle, x, w, c, y, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle,
                                                           const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t dy,
                                                           const cudnnConvolutionDescriptor_t c,
                                                           const cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t, size_t* bytes) {
  return tell_workspace(handle, dx, w, c, dy, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle,
                                                             const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t dy,
                                                             const cudnnConvolutionDescriptor_t c,
                                                             const cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t, size_t* bytes) {
  return tell_workspace(handle, x, dw, c, dy, bytes);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t c,
                                                     const cudnnTensorDescriptor_t y, const int wanted,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* answers) {
  return tell_algorithms(handle, x, w, c, y, kForward, wanted, count, answers);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx, const int wanted, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* answers) {
  return tell_algorithms(handle, dx, w, c, dy, kBackwardData, wanted, count, answers);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw, const int wanted, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* answers) {
  return tell_algorithms(handle, x, dw, c, dy, kBackwardFilter, wanted, count, answers);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const void*, const cudnnFilterDescriptor_t w,
                                                     const void*, const cudnnConvolutionDescriptor_t c,
                                                     const cudnnTensorDescriptor_t y, void* y_values,
                                                     const int wanted, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* answers, void*, size_t) {
  const auto status = tell_algorithms(handle, x, w, c, y, kForward, wanted, count, answers);
  return status == CUDNN_STATUS_SUCCESS ? spoil(handle, y->tensor, y_values) : status;
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const void*, const cudnnTensorDescriptor_t dy,
    const void*, const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx, void* dx_values,
    const int wanted, int* count, cudnnConvolutionBwdDataAlgoPerf_t* answers, void*, size_t) {
  const auto status = tell_algorithms(handle, dx, w, c, dy, kBackwardData, wanted, count, answers);
  return status == CUDNN_STATUS_SUCCESS ? spoil(handle, dx->tensor, dx_values) : status;
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t dy,
    const void*, const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw, void* dw_values,
    const int wanted, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* answers, void*, size_t) {
  const auto status = tell_algorithms(handle, x, dw, c, dy, kBackwardFilter, wanted, count, answers);
  return status == CUDNN_STATUS_SUCCESS ? spoil(handle, dw->tensor, dw_values) : status;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* x_values,
                                      const cudnnFilterDescriptor_t w, const void* w_values,
                                      const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t,
                                      void* workspace, size_t workspace_size, const void* beta,
                                      const cudnnTensorDescriptor_t y, void* y_values) {
  return enqueue(handle, c, {x, x_values, w, w_values, y, y_values}, alpha, beta, workspace, workspace_size,
                 [=](const Convolution& all, float a, float* columns, float b) {
                   all.forward(a, x_values, w_values, columns, b, y_values);
                 });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w, const void* w_values,
                                           const cudnnTensorDescriptor_t dy, const void* dy_values,
                                           const cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t, void* workspace,
                                           size_t workspace_size, const void* beta,
                                           const cudnnTensorDescriptor_t dx, void* dx_values) {
  return enqueue(handle, c, {dx, dx_values, w, w_values, dy, dy_values}, alpha, beta, workspace,
                 workspace_size, [=](const Convolution& all, float a, float* columns, float b) {
                   all.backward_data(a, w_values, dy_values, columns, b, dx_values);
                 });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x, const void* x_values,
                                             const cudnnTensorDescriptor_t dy, const void* dy_values,
                                             const cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t, void* workspace,
                                             size_t workspace_size, const void* beta,
                                             const cudnnFilterDescriptor_t dw, void* dw_values) {
  return enqueue(handle, c, {x, x_values, dw, dw_values, dy, dy_values}, alpha, beta, workspace,
                 workspace_size, [=](const Convolution& all, float a, float* columns, float b) {
                   all.backward_filter(a, x_values, dy_values, columns, b, dw_values);
                 });
}
