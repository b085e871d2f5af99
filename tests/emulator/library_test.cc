// Checks the emulated cuBLAS and cuDNN against plain loops.

#include <cublas_v2.h>
#include <cudnn.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/arrays.h"

namespace starling::emulator {

namespace {

using Floats = std::vector<float>;
using kernels::cuda::from_float;
using kernels::cuda::to_float;
using Bfloat16 = __nv_bfloat16;

// A column-major matrix with leading dimension `leading`.
struct Matrix {
  Floats values;
  int leading;
  bool transposed;
  float at(int i, int j) const {
    return transposed ? values[static_cast<std::size_t>(i * leading + j)]
                      : values[static_cast<std::size_t>(j * leading + i)];
  }
};

Matrix matrix(int rows, int columns, bool transposed, unsigned seed) {
  const int leading = (transposed ? columns : rows) + 2;
  return {numbers(static_cast<std::size_t>(leading * (transposed ? rows : columns)), seed), leading,
          transposed};
}

template <class T>
void check_gemm(bool a_transposed, bool b_transposed) {
  constexpr int m = 5, n = 7, k = 9;
  const Matrix a = matrix(m, k, a_transposed, 1), b = matrix(k, n, b_transposed, 2),
               c = matrix(m, n, false, 3);
  const DeviceArray<T> a_there(a.values), b_there(b.values);
  const DeviceArray<float> c_there(c.values);
  OwnStream stream;
  DeviceArray<float> workspace(1024);
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream_v2(handle, stream.handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetWorkspace_v2(handle, workspace.data, 4096) == CUBLAS_STATUS_SUCCESS);
  const float alpha = 2, beta = 0.5F;
  const auto type = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_16BF;
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto gemm = [&](int c_leading) {
    return cublasGemmEx(handle, operation(a_transposed), operation(b_transposed), m, n, k, &alpha,
                        a_there.data, type, a.leading, b_there.data, type, b.leading, &beta, c_there.data,
                        CUDA_R_32F, c_leading, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  REQUIRE(gemm(m - 1) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(gemm(c.leading) == CUBLAS_STATUS_SUCCESS);
  stream.wait();
  const Floats got = c_there.read();
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += a.at(i, l) * b.at(l, j);
      REQUIRE(got[static_cast<std::size_t>(j * c.leading + i)] == 2 * sum + 0.5F * c.at(i, j));
    }
  }
  REQUIRE(cublasDestroy_v2(handle) == CUBLAS_STATUS_SUCCESS);
}

}  // namespace

TEST_CASE("cublasGemmEx matches plain loops for all transpositions") {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      check_gemm<float>(a_transposed, b_transposed);
      check_gemm<Bfloat16>(a_transposed, b_transposed);
    }
  }
}

TEST_CASE("cuBLAS without a workspace of its own cannot be captured") {
  OwnStream stream;
  DeviceArray<float> x(Floats(1, 3));
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetWorkspace_v2(handle, nullptr, 0) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream_v2(handle, stream.handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  const float one = 1, zero = 0;
  REQUIRE(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x.data, 1, x.data, 1, &zero, x.data,
                         1) == CUBLAS_STATUS_ALLOC_FAILED);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream.handle, &graph) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cublasDestroy_v2(handle) == CUBLAS_STATUS_SUCCESS);
}

namespace {

struct Geometry {
  int batch, in, out, height, width, kernel, stride, padding, groups;
  int out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

// The offset of a value of [n, c, h, w].
std::size_t at(bool nhwc, int channels, int height, int width, int n, int c, int i, int j) {
  return static_cast<std::size_t>(nhwc ? ((n * height + i) * width + j) * channels + c
                                       : ((n * channels + c) * height + i) * width + j);
}

// Calls f(offset in x, offset in w, offset in y) for every product of a convolution.
template <class F>
void each_product(const Geometry& g, bool nhwc, const F& f) {
  const int in_group = g.in / g.groups, out_group = g.out / g.groups;
  for (int n = 0; n < g.batch; ++n)
    for (int o = 0; o < g.out; ++o)
      for (int i = 0; i < g.out_height(); ++i)
        for (int j = 0; j < g.out_width(); ++j)
          for (int c = 0; c < in_group; ++c)
            for (int u = 0; u < g.kernel; ++u)
              for (int v = 0; v < g.kernel; ++v) {
                const int row = i * g.stride + u - g.padding, column = j * g.stride + v - g.padding;
                if (row < 0 || row >= g.height || column < 0 || column >= g.width) continue;
                f(at(nhwc, g.in, g.height, g.width, n, o / out_group * in_group + c, row, column),
                  at(nhwc, in_group, g.kernel, g.kernel, o, c, u, v),
                  at(nhwc, g.out, g.out_height(), g.out_width(), n, o, i, j));
              }
}

// The plain loops are exact, so only the rounding to T remains.
template <class T>
void require_equal(const DeviceArray<T>& got, const Floats& sums, const Floats& before) {
  const Floats values = got.read();
  REQUIRE(values.size() == sums.size());
  bool equal = true;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    equal = equal && values[i] == to_float(from_float<T>(2 * sums[i] + 0.5F * before[i]));
  }
  REQUIRE(equal);
}

void ok(cudnnStatus_t status) { REQUIRE(status == CUDNN_STATUS_SUCCESS); }

// The handle and the descriptors of a convolution of T.
template <class T>
struct Convolution {
  Convolution(const Geometry& g, bool nhwc) : format(nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW) {
    ok(cudnnCreate(&handle));
    ok(cudnnSetStream(handle, stream.handle));
    ok(cudnnCreateTensorDescriptor(&x));
    ok(cudnnCreateTensorDescriptor(&y));
    ok(cudnnCreateFilterDescriptor(&w));
    ok(cudnnCreateConvolutionDescriptor(&c));
    ok(cudnnSetTensor4dDescriptor(x, format, kType, g.batch, g.in, g.height, g.width));
    set_output(g, g.out_height());
    ok(cudnnSetFilter4dDescriptor(w, kType, format, g.out, g.in / g.groups, g.kernel, g.kernel));
    ok(cudnnSetConvolution2dDescriptor(c, g.padding, g.padding, g.stride, g.stride, 1, 1,
                                       CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    ok(cudnnSetConvolutionGroupCount(c, g.groups));
  }
  ~Convolution() {
    cudnnDestroyConvolutionDescriptor(c);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroy(handle);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  void set_output(const Geometry& g, int height) {
    ok(cudnnSetTensor4dDescriptor(y, format, kType, g.batch, g.out, height, g.out_width()));
  }

  static constexpr auto kType = sizeof(T) == 4 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
  cudnnTensorFormat_t format;
  OwnStream stream;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t c = nullptr;
};

template <class T>
void check_convolution(const Geometry& g, bool nhwc) {
  Convolution<T> it(g, nhwc);
  int n = 0, channels = 0, height = 0, width = 0;
  ok(cudnnGetConvolution2dForwardOutputDim(it.c, it.x, it.w, &n, &channels, &height, &width));
  REQUIRE(std::vector{n, channels, height, width} ==
          std::vector{g.batch, g.out, g.out_height(), g.out_width()});

  const auto product = [](auto... extents) { return static_cast<std::size_t>((extents * ...)); };
  const Floats x = numbers(product(g.batch, g.in, g.height, g.width), 1);
  const Floats w = numbers(product(g.out, g.in / g.groups, g.kernel, g.kernel), 2);
  const Floats y = numbers(product(g.batch, g.out, g.out_height(), g.out_width()), 3);
  DeviceArray<T> x_there(x), w_there(w), y_there(y);
  const float alpha = 2, beta = 0.5F;

  std::size_t bytes = 0;
  cudnnConvolutionFwdAlgoPerf_t answer;
  int count = 0;
  ok(cudnnGetConvolutionForwardAlgorithm_v7(it.handle, it.x, it.w, it.c, it.y, 1, &count, &answer));
  REQUIRE(count == 1);
  ok(cudnnGetConvolutionForwardWorkspaceSize(it.handle, it.x, it.w, it.c, it.y, answer.algo, &bytes));
  REQUIRE(bytes > 0);
  DeviceArray<float> workspace(bytes / 4);
  const auto forward = [&](std::size_t given) {
    return cudnnConvolutionForward(it.handle, &alpha, it.x, x_there.data, it.w, w_there.data, it.c,
                                   answer.algo, workspace.data, given, &beta, it.y, y_there.data);
  };
  REQUIRE(forward(bytes - 1) == CUDNN_STATUS_BAD_PARAM);
  ok(forward(bytes));
  it.stream.wait();
  Floats sums(y.size());
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[k] += x[i] * w[j]; });
  require_equal(y_there, sums, y);

  DeviceArray<T> dy(y), dx(x), dw(w);
  ok(cudnnConvolutionBackwardData(it.handle, &alpha, it.w, w_there.data, it.y, dy.data, it.c,
                                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace.data, bytes, &beta, it.x,
                                  dx.data));
  ok(cudnnConvolutionBackwardFilter(it.handle, &alpha, it.x, x_there.data, it.y, dy.data, it.c,
                                    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace.data, bytes, &beta, it.w,
                                    dw.data));
  it.stream.wait();
  sums.assign(x.size(), 0);
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[i] += y[k] * w[j]; });
  require_equal(dx, sums, x);
  sums.assign(w.size(), 0);
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[j] += y[k] * x[i]; });
  require_equal(dw, sums, w);

  // Inconsistent arguments are reported.
  it.set_output(g, g.out_height() + 1);
  REQUIRE(forward(bytes) == CUDNN_STATUS_BAD_PARAM);
  char sentence[128];
  cudnnGetLastErrorString(sentence, sizeof sentence);
  REQUIRE(std::string(sentence) ==
          "the output's height or width is not what the convolution makes of the input");
}

}  // namespace

TEST_CASE("cuDNN's convolutions match plain loops: formats, groups, strides, padding") {
  for (const Geometry& g : {Geometry{2, 3, 4, 7, 6, 3, 1, 1, 1}, Geometry{3, 4, 6, 9, 8, 3, 2, 1, 2},
                            Geometry{2, 4, 4, 5, 5, 3, 1, 1, 4}, Geometry{2, 5, 7, 6, 6, 1, 2, 0, 1},
                            Geometry{1, 2, 3, 8, 8, 5, 1, 2, 1}}) {
    check_convolution<float>(g, false);
    check_convolution<Bfloat16>(g, true);
  }
}

}  // namespace starling::emulator
