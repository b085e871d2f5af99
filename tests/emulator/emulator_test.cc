// Checks that the emulated device behaves like a real one: asynchronous and strict.

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
#include "tests/emulator/arrays.h"
#include "tests/emulator/testing.h"

namespace starling::emulator {

namespace {

using Floats = std::vector<float>;
using kernels::cuda::shuffle_xor;
using kernels::cuda::warp_sum;

struct Event {
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

// Blocks a stream until it is opened.
struct Gate {
  std::binary_semaphore semaphore{0};
  void close(const OwnStream& stream) {
    const auto wait = [](void* gate) { static_cast<Gate*>(gate)->semaphore.acquire(); };
    REQUIRE(cudaLaunchHostFunc(stream.handle, wait, this) == cudaSuccess);
  }
  void open() { semaphore.release(); }
};

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

__global__ void swap_lanes(int* x) { x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 5); }

// c = a b, 16 x 16 and 16 x 8.
__global__ void multiply_in_warp(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  const auto word = [](__nv_bfloat16 low, __nv_bfloat16 high) {
    return __bfloat16_as_ushort(low) | static_cast<std::uint32_t>(__bfloat16_as_ushort(high)) << 16;
  };
  const auto of_a = [&](unsigned i, unsigned k) { return word(a[i * 16 + k], a[i * 16 + k + 1]); };
  const auto of_b = [&](unsigned k, unsigned j) { return word(b[k * 8 + j], b[k * 8 + 8 + j]); };
  const std::uint32_t left[4] = {of_a(g, t), of_a(g + 8, t), of_a(g, t + 8), of_a(g + 8, t + 8)};
  const std::uint32_t right[2] = {of_b(t, g), of_b(t + 8, g)};
  float sums[4] = {};
  kernels::cuda::multiply_add(left, right, sums);
  for (unsigned e = 0; e < 4; ++e) c[(g + e / 2 * 8) * 8 + t + e % 2] = sums[e];
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

cudaError_t start_add(const OwnStream& stream, const DeviceArray<float>& x, float more) {
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
  OwnStream stream, other;
  DeviceArray<float> x(Floats(100, 1)), y(Floats(100, 1));
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
  OwnStream stream, other;
  Event event;
  DeviceArray<float> x(Floats(100, 1));
  Gate gate;
  REQUIRE(cudaEventQuery(event.handle) == cudaSuccess);  // nothing was recorded
  gate.close(stream);
  REQUIRE(start_add(stream, x, 1) == cudaSuccess);
  REQUIRE(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other.handle, event.handle, 0) == cudaSuccess);
  DeviceArray<float> y(Floats(100, 0));
  REQUIRE(cudaMemcpyAsync(y.data, x.data, 400, cudaMemcpyDeviceToDevice, other.handle) == cudaSuccess);
  REQUIRE(cudaEventQuery(event.handle) == cudaErrorNotReady);
  REQUIRE(cudaStreamQuery(other.handle) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(event.handle) == cudaSuccess);
  other.wait();
  REQUIRE(y.read() == Floats(100, 2));
}

TEST_CASE("captured work runs only on replay, with the arguments of the capture") {
  OwnStream stream;
  DeviceArray<float> x(Floats(100, 0));
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
  OwnStream stream;
  DeviceArray<float> x(Floats(4, 0));
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
  OwnStream stream;
  const DeviceArray<float> x(numbers(5 * 256, 1));
  DeviceArray<float> sums(5);
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

TEST_CASE("a warp multiplies matrices whose parts its lanes have") {
  OwnStream stream;
  const Floats a = numbers(16 * 16, 1), b = numbers(16 * 8, 2);
  const DeviceArray<__nv_bfloat16> a_there(a), b_there(b);
  DeviceArray<float> c(16 * 8);
  REQUIRE(start(Threads::together, stream.handle, dim3(1), dim3(32), multiply_in_warp, a_there.data,
                b_there.data, c.data) == cudaSuccess);
  stream.wait();
  const Floats got = c.read();
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += a[i * 16 + k] * b[k * 8 + j];
      REQUIRE(got[i * 8 + j] == sum);
    }
  }
}

TEST_CASE("what would hang or be undefined on a device aborts the program") {
  if (!kForks) return;
  const auto ends = [](Threads threads, unsigned block, auto kernel, auto... arguments) {
    return dies([=] {
      const OwnStream stream;
      static_cast<void>(start(threads, stream.handle, dim3(1), dim3(block), kernel, arguments...));
      stream.wait();
    });
  };
  DeviceArray<float> x(Floats(64, 1));
  REQUIRE(ends(Threads::together, 64, meet_unless_first));
  REQUIRE(ends(Threads::together, 64, meet_or_shuffle, x.data));
  REQUIRE(ends(Threads::together, 40, swap_lanes, reinterpret_cast<int*>(x.data)));
  REQUIRE(ends(Threads::apart, 64, meet_unless_first));
  REQUIRE(!ends(Threads::apart, 64, add, x.data, 1.0F, 64));
}

TEST_CASE("a launch of an impossible extent is rejected") {
  OwnStream stream;
  DeviceArray<float> x(1);
  for (const auto& [grid, block] : {std::pair(dim3(1), dim3(1025)), std::pair(dim3(0), dim3(1)),
                                    std::pair(dim3(1, 65536), dim3(1)), std::pair(dim3(1), dim3(1, 1, 65))}) {
    REQUIRE(start(Threads::apart, stream.handle, grid, block, add, x.data, 1.0F, 1) ==
            cudaErrorInvalidConfiguration);
  }
}

TEST_CASE("new memory is not zeroed, and its size is limited") {
  const std::size_t before = starling_emulator_live_bytes();
  {
    DeviceArray<float> x(1000);
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
  OwnStream stream;
  DeviceArray<float> x(4);
  Floats host(8);
  REQUIRE(cudaMemcpyAsync(x.data, host.data(), 20, cudaMemcpyHostToDevice, stream.handle) ==
          cudaErrorInvalidValue);
  REQUIRE(cudaMemcpyAsync(x.data, host.data(), 16, cudaMemcpyDeviceToHost, stream.handle) ==
          cudaErrorInvalidMemcpyDirection);
  REQUIRE(cudaMemsetAsync(x.data, 0, 20, stream.handle) == cudaErrorInvalidValue);
}

TEST_CASE("the host cannot access device memory, and a kernel cannot write past an allocation") {
  if (!kForks) return;
  DeviceArray<float> x(Floats(4, 1));
  if (starling_emulator_protects()) {
    REQUIRE(dies([&] { x.data[0] = 2; }));
    REQUIRE(dies([&] { _exit(*static_cast<volatile float*>(x.data) > 2); }));
  }
  REQUIRE(x.read() == Floats(4, 1));
  REQUIRE(dies([] {
    const OwnStream stream;
    const DeviceArray<float> small(4);
    static_cast<void>(start(Threads::apart, stream.handle, dim3(1), dim3(5), add, small.data, 1.0F, 5));
    stream.wait();
  }));
}

TEST_CASE("a lost device fails every call, stops working, and still allows releasing resources") {
  const std::size_t before = starling_emulator_live_bytes();
  {
    OwnStream stream;
    Event event;
    DeviceArray<float> x(Floats(4, 1));
    SECTION("now") { starling_emulator_lose_device(); }
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
  REQUIRE(DeviceArray<float>(Floats(4, 1)).read() == Floats(4, 1));
}

TEST_CASE("a stream that waits when the device is lost is released") {
  OwnStream stream, other;
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

}  // namespace starling::emulator
