// Checks that the emulated device behaves like a real one: asynchronous and strict.

#include <cublas_v2.h>
#include <cudnn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <semaphore>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/kernel.h"
#include "tests/emulator/testing.h"

// After the names that it uses.
#include "kernels/cuda/launch.h"

namespace starling::emulator {

namespace {

using Floats = std::vector<float>;
using kernels::cuda::from_float;
using kernels::cuda::shuffle_xor;
using kernels::cuda::to_float;
using kernels::cuda::warp_sum;
using Bfloat16 = __nv_bfloat16;

struct Stream {
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void wait() const { REQUIRE(cudaStreamSynchronize(handle) == cudaSuccess); }
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

// Values in device memory.
template <class T>
struct Array {
  explicit Array(std::size_t count) : size(count) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, count * sizeof(T)) == cudaSuccess);
    data = static_cast<T*>(p);
  }
  explicit Array(const Floats& values) : Array(values.size()) {
    std::vector<T> there;
    for (const float value : values) there.push_back(from_float<T>(value));
    REQUIRE(cudaMemcpy(data, there.data(), size * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~Array() { cudaFree(data); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Floats read() const {
    std::vector<T> here(size);
    REQUIRE(cudaMemcpy(here.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    Floats values;
    for (const T value : here) values.push_back(to_float(value));
    return values;
  }
  T* data;
  std::size_t size;
};

// Blocks a stream until it is opened.
struct Gate {
  std::binary_semaphore semaphore{0};
  void close(const Stream& stream) {
    const auto wait = [](void* gate) { static_cast<Gate*>(gate)->semaphore.acquire(); };
    REQUIRE(cudaLaunchHostFunc(stream.handle, wait, this) == cudaSuccess);
  }
  void open() { semaphore.release(); }
};

// Numbers that bfloat16 represents exactly, without equal neighbors.
Floats numbers(std::size_t count, unsigned seed) {
  Floats values;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(static_cast<int>(seed >> 28) - 8) / 4);
  }
  return values;
}

__global__ void add(float* x, float more, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += more;
}

__global__ void sum_of_block(const float* x, float* sums) {
  STARLING_SHARED float of_warp[32];
  const float sum = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) all += of_warp[i];
    sums[blockIdx.x] = all;
  }
}

__global__ void swap_lanes(int* x) {
  x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 5);
}

__global__ void meet_unless_first() {
  if (threadIdx.x != 0) __syncthreads();
}

__global__ void meet_or_shuffle(float* x) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    x[threadIdx.x] = shuffle_xor(1.0F, 1);
  }
}

cudaError_t start_add(const Stream& stream, const Array<float>& x, float more) {
  const int n = static_cast<int>(x.size);
  return start(Threads::apart, stream.handle, dim3(static_cast<unsigned>(n + 63) / 64), dim3(64), add, x.data,
               more, n);
}

#ifdef __SANITIZE_THREAD__
constexpr bool kForks = false;  // the thread sanitizer does not support forks of threaded processes
#else
constexpr bool kForks = true;
#endif

// Whether a process that runs this is killed.
bool dies(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    // Catch2 and sanitizers must not report the signal.
    for (const int signal : {SIGSEGV, SIGABRT}) std::signal(signal, SIG_DFL);
    std::fclose(stderr);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status != 0;
}

}  // namespace

TEST_CASE("a stream's work runs in order and waits only for its stream") {
  Stream stream, other;
  Array<float> x(Floats(100, 1)), y(Floats(100, 1));
  Gate gate;
  gate.close(stream);
  REQUIRE(start_add(stream, x, 1) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(y.data, x.data, 400, cudaMemcpyDeviceToDevice, stream.handle) == cudaSuccess);
  REQUIRE(start_add(stream, x, 1) == cudaSuccess);
  REQUIRE(cudaStreamQuery(stream.handle) == cudaErrorNotReady);
  REQUIRE(start_add(other, x, 4) == cudaSuccess);
  other.wait();
  REQUIRE(x.read() == Floats(100, 5));
  gate.open();
  stream.wait();
  REQUIRE(x.read() == Floats(100, 7));
  REQUIRE(y.read() == Floats(100, 6));
  REQUIRE(cudaStreamQuery(stream.handle) == cudaSuccess);
}

TEST_CASE("an event delays another stream exactly until the work before it is done") {
  Stream stream, other;
  Event event;
  Array<float> x(Floats(100, 1));
  Gate gate;
  REQUIRE(cudaEventQuery(event.handle) == cudaSuccess);  // nothing was recorded
  gate.close(stream);
  REQUIRE(start_add(stream, x, 1) == cudaSuccess);
  REQUIRE(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other.handle, event.handle, 0) == cudaSuccess);
  Array<float> y(Floats(100, 0));
  REQUIRE(cudaMemcpyAsync(y.data, x.data, 400, cudaMemcpyDeviceToDevice, other.handle) == cudaSuccess);
  REQUIRE(cudaEventQuery(event.handle) == cudaErrorNotReady);
  REQUIRE(cudaStreamQuery(other.handle) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(event.handle) == cudaSuccess);
  other.wait();
  REQUIRE(y.read() == Floats(100, 2));
}

TEST_CASE("captured work runs only on replay, with the arguments of the capture") {
  Stream stream;
  Array<float> x(Floats(100, 0));
  float more = 1;
  REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(start_add(stream, x, more) == cudaSuccess);
  more = 10;
  REQUIRE(start_add(stream, x, more) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream.handle, &graph) == cudaSuccess);
  more = 100;
  cudaGraphExec_t replay = nullptr;
  REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  stream.wait();
  REQUIRE(x.read() == Floats(100, 0));
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(cudaGraphLaunch(replay, stream.handle) == cudaSuccess);
    stream.wait();
    REQUIRE(x.read() == Floats(100, 11.0F * static_cast<float>(i)));
  }
  REQUIRE(cudaGraphLaunch(replay, stream.handle) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(replay) == cudaSuccess);  // the replay still runs
  stream.wait();
  REQUIRE(x.read() == Floats(100, 44));
}

TEST_CASE("a call that is illegal during a capture fails and invalidates it") {
  Stream stream;
  Array<float> x(Floats(4, 0));
  void* p = nullptr;
  Floats pageable(4);
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&p, 4); },
      [&] { return cudaFree(x.data); },
      [&] { return cudaMallocHost(&p, 4); },
      [&] { return cudaStreamSynchronize(stream.handle); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaMemcpy(x.data, pageable.data(), 16, cudaMemcpyHostToDevice); },
      [&] { return cudaMemcpyAsync(x.data, pageable.data(), 16, cudaMemcpyHostToDevice, stream.handle); },
  };
  for (const auto& call : calls) {
    REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(call() == cudaErrorStreamCaptureUnsupported);
    REQUIRE(start_add(stream, x, 1) == cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
    REQUIRE(graph == nullptr);
  }
  REQUIRE(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  REQUIRE(start_add(stream, x, 1) == cudaSuccess);
}

TEST_CASE("threads of a block meet at barriers and see each other's values in shuffles") {
  Stream stream;
  const Array<float> x(numbers(5 * 256, 1));
  Array<float> sums(5);
  REQUIRE(start(Threads::together, stream.handle, dim3(5), dim3(256), sum_of_block, x.data, sums.data) ==
          cudaSuccess);
  stream.wait();
  const Floats values = x.read(), got = sums.read();
  for (std::size_t b = 0; b < 5; ++b) {
    float sum = 0;
    for (std::size_t i = 0; i < 256; ++i) sum += values[b * 256 + i];
    REQUIRE(got[b] == sum);
  }

  std::vector<int> lanes(64), swapped(64);
  for (int i = 0; i < 64; ++i) lanes[static_cast<std::size_t>(i)] = i;
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 256) == cudaSuccess);
  REQUIRE(cudaMemcpy(p, lanes.data(), 256, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(start(Threads::together, stream.handle, dim3(1), dim3(64), swap_lanes, static_cast<int*>(p)) ==
          cudaSuccess);
  stream.wait();
  REQUIRE(cudaMemcpy(swapped.data(), p, 256, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int i = 0; i < 64; ++i) REQUIRE(swapped[static_cast<std::size_t>(i)] == (i ^ 5));
  REQUIRE(cudaFree(p) == cudaSuccess);
}

TEST_CASE("what would hang or be undefined on a device aborts the program") {
  if (!kForks) return;
  const auto ends = [](Threads threads, unsigned block, auto kernel, auto... arguments) {
    return dies([=] {
      const Stream stream;
      static_cast<void>(start(threads, stream.handle, dim3(1), dim3(block), kernel, arguments...));
      stream.wait();
    });
  };
  Array<float> x(Floats(64, 1));
  REQUIRE(ends(Threads::together, 64, meet_unless_first));
  REQUIRE(ends(Threads::together, 64, meet_or_shuffle, x.data));
  REQUIRE(ends(Threads::together, 40, swap_lanes, reinterpret_cast<int*>(x.data)));
  REQUIRE(ends(Threads::apart, 64, meet_unless_first));
  REQUIRE(!ends(Threads::apart, 64, add, x.data, 1.0F, 64));
}

TEST_CASE("a launch of an impossible extent is rejected") {
  Stream stream;
  Array<float> x(1);
  for (const auto& [grid, block] : {std::pair(dim3(1), dim3(1025)), std::pair(dim3(0), dim3(1)),
                                    std::pair(dim3(1, 65536), dim3(1)), std::pair(dim3(1), dim3(1, 1, 65))}) {
    REQUIRE(start(Threads::apart, stream.handle, grid, block, add, x.data, 1.0F, 1) ==
            cudaErrorInvalidConfiguration);
  }
}

TEST_CASE("new memory is not zeroed, and its size is limited") {
  const std::size_t before = starling_emulator_live_bytes();
  {
    Array<float> x(1000);
    for (const float value : x.read()) REQUIRE(std::isnan(value));
    REQUIRE(starling_emulator_live_bytes() == before + 4000);
    std::size_t free = 0, total = 0;
    starling_emulator_set_memory(std::size_t{1} << 20);
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    REQUIRE(total == std::size_t{1} << 20);
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, free + 1) == cudaErrorMemoryAllocation);
    REQUIRE(p == nullptr);
    REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
    REQUIRE(cudaMalloc(&p, free) == cudaSuccess);
    REQUIRE(cudaFree(p) == cudaSuccess);
    REQUIRE(cudaFree(p) == cudaErrorInvalidValue);
    starling_emulator_set_memory(5000);
    REQUIRE(cudaMalloc(&p, 1000) == cudaErrorMemoryAllocation);
    starling_emulator_set_memory(total);
    std::size_t free_again = 0;
    REQUIRE(cudaMemGetInfo(&free_again, &total) == cudaSuccess);
    REQUIRE(free_again == free);
    starling_emulator_set_memory(std::size_t{1} << 30);
  }
  REQUIRE(starling_emulator_live_bytes() == before);
}

TEST_CASE("copies beyond an allocation, or with a wrong direction, are rejected") {
  Stream stream;
  Array<float> x(4);
  Floats host(8);
  REQUIRE(cudaMemcpyAsync(x.data, host.data(), 20, cudaMemcpyHostToDevice, stream.handle) ==
          cudaErrorInvalidValue);
  REQUIRE(cudaMemcpyAsync(x.data, host.data(), 16, cudaMemcpyDeviceToHost, stream.handle) ==
          cudaErrorInvalidMemcpyDirection);
  REQUIRE(cudaMemsetAsync(x.data, 0, 20, stream.handle) == cudaErrorInvalidValue);
}

TEST_CASE("the host cannot access device memory, and a kernel cannot write past an allocation") {
  if (!kForks) return;
  Array<float> x(Floats(4, 1));
  if (starling_emulator_protects()) {
    REQUIRE(dies([&] { x.data[0] = 2; }));
    REQUIRE(dies([&] { _exit(*static_cast<volatile float*>(x.data) > 2); }));
  }
  REQUIRE(x.read() == Floats(4, 1));
  REQUIRE(dies([] {
    const Stream stream;
    const Array<float> small(4);
    static_cast<void>(start(Threads::apart, stream.handle, dim3(1), dim3(5), add, small.data, 1.0F, 5));
    stream.wait();
  }));
}

TEST_CASE("a lost device fails every call, stops working, and still allows releasing resources") {
  const std::size_t before = starling_emulator_live_bytes();
  {
    Stream stream;
    Event event;
    Array<float> x(Floats(4, 1));
    SECTION("now") {
      starling_emulator_lose_device();
    }
    SECTION("during a later call") {
      starling_emulator_lose_device_after(2);
      REQUIRE(start_add(stream, x, 1) == cudaSuccess);
      REQUIRE(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
    }
    REQUIRE(start_add(stream, x, 1) == cudaErrorDevicesUnavailable);
    REQUIRE(cudaEventSynchronize(event.handle) == cudaErrorDevicesUnavailable);
    REQUIRE(cudaStreamSynchronize(stream.handle) == cudaErrorDevicesUnavailable);
    REQUIRE(cudaGetLastError() == cudaErrorDevicesUnavailable);
    REQUIRE(cudaGetLastError() == cudaErrorDevicesUnavailable);
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 4) == cudaErrorDevicesUnavailable);
  }
  REQUIRE(starling_emulator_live_bytes() == before);
  starling_emulator_restore_device();
  REQUIRE(Array<float>(Floats(4, 1)).read() == Floats(4, 1));
}

TEST_CASE("a stream that waits when the device is lost is released") {
  Stream stream, other;
  Event event;
  Gate gate;
  gate.close(stream);
  REQUIRE(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other.handle, event.handle, 0) == cudaSuccess);
  gate.open();
  starling_emulator_lose_device();
  REQUIRE(cudaStreamSynchronize(other.handle) == cudaErrorDevicesUnavailable);
  starling_emulator_restore_device();
}

namespace {

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
  const Array<T> a_there(a.values), b_there(b.values);
  const Array<float> c_there(c.values);
  Stream stream;
  Array<float> workspace(1024);
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
  Stream stream;
  Array<float> x(Floats(1, 3));
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
void require_equal(const Array<T>& got, const Floats& sums, const Floats& before) {
  const Floats values = got.read();
  REQUIRE(values.size() == sums.size());
  bool equal = true;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    equal = equal && values[i] == to_float(from_float<T>(2 * sums[i] + 0.5F * before[i]));
  }
  REQUIRE(equal);
}

template <class T>
void check_convolution(const Geometry& g, bool nhwc) {
  const auto type = sizeof(T) == 4 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
  const auto format = nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  Stream stream;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t c = nullptr;
  const auto ok = [](cudnnStatus_t status) { REQUIRE(status == CUDNN_STATUS_SUCCESS); };
  ok(cudnnCreate(&handle));
  ok(cudnnSetStream(handle, stream.handle));
  ok(cudnnCreateTensorDescriptor(&x));
  ok(cudnnCreateTensorDescriptor(&y));
  ok(cudnnCreateFilterDescriptor(&w));
  ok(cudnnCreateConvolutionDescriptor(&c));
  ok(cudnnSetTensor4dDescriptor(x, format, type, g.batch, g.in, g.height, g.width));
  ok(cudnnSetTensor4dDescriptor(y, format, type, g.batch, g.out, g.out_height(), g.out_width()));
  ok(cudnnSetFilter4dDescriptor(w, type, format, g.out, g.in / g.groups, g.kernel, g.kernel));
  ok(cudnnSetConvolution2dDescriptor(c, g.padding, g.padding, g.stride, g.stride, 1, 1,
                                     CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  ok(cudnnSetConvolutionGroupCount(c, g.groups));
  int n = 0, channels = 0, height = 0, width = 0;
  ok(cudnnGetConvolution2dForwardOutputDim(c, x, w, &n, &channels, &height, &width));
  REQUIRE(std::vector{n, channels, height, width} ==
          std::vector{g.batch, g.out, g.out_height(), g.out_width()});

  const auto product = [](auto... extents) { return static_cast<std::size_t>((extents * ...)); };
  const Floats x_values = numbers(product(g.batch, g.in, g.height, g.width), 1);
  const Floats w_values = numbers(product(g.out, g.in / g.groups, g.kernel, g.kernel), 2);
  const Floats y_values = numbers(product(g.batch, g.out, g.out_height(), g.out_width()), 3);
  Array<T> x_there(x_values), w_there(w_values), y_there(y_values);
  const float alpha = 2, beta = 0.5F;

  std::size_t bytes = 0;
  cudnnConvolutionFwdAlgoPerf_t answer;
  int count = 0;
  ok(cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, c, y, 1, &count, &answer));
  REQUIRE(count == 1);
  ok(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, c, y, answer.algo, &bytes));
  REQUIRE(bytes > 0);
  Array<float> workspace(bytes / 4);
  const auto forward = [&](std::size_t given) {
    return cudnnConvolutionForward(handle, &alpha, x, x_there.data, w, w_there.data, c, answer.algo,
                                   workspace.data, given, &beta, y, y_there.data);
  };
  REQUIRE(forward(bytes - 1) == CUDNN_STATUS_BAD_PARAM);
  ok(forward(bytes));
  stream.wait();
  Floats sums(y_values.size());
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[k] += x_values[i] * w_values[j]; });
  require_equal(y_there, sums, y_values);

  Array<T> dy(y_values), dx(x_values), dw(w_values);
  ok(cudnnConvolutionBackwardData(handle, &alpha, w, w_there.data, y, dy.data, c,
                                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace.data, bytes, &beta, x,
                                  dx.data));
  ok(cudnnConvolutionBackwardFilter(handle, &alpha, x, x_there.data, y, dy.data, c,
                                    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace.data, bytes, &beta, w,
                                    dw.data));
  stream.wait();
  sums.assign(x_values.size(), 0);
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[i] += y_values[k] * w_values[j]; });
  require_equal(dx, sums, x_values);
  sums.assign(w_values.size(), 0);
  each_product(g, nhwc, [&](auto i, auto j, auto k) { sums[j] += y_values[k] * x_values[i]; });
  require_equal(dw, sums, w_values);

  // Inconsistent arguments are reported.
  ok(cudnnSetTensor4dDescriptor(y, format, type, g.batch, g.out, g.out_height() + 1, g.out_width()));
  REQUIRE(forward(bytes) == CUDNN_STATUS_BAD_PARAM);
  char sentence[128];
  cudnnGetLastErrorString(sentence, sizeof sentence);
  REQUIRE(std::string(sentence) ==
          "the output's height or width is not what the convolution makes of the input");

  ok(cudnnDestroyConvolutionDescriptor(c));
  ok(cudnnDestroyFilterDescriptor(w));
  ok(cudnnDestroyTensorDescriptor(y));
  ok(cudnnDestroyTensorDescriptor(x));
  ok(cudnnDestroy(handle));
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
