// The CUDA language features that kernels/cuda/launch.h allows, for a plain C++ compiler, and kernel
// launches: a kernel becomes work of a stream of the emulated device (stream.h), with a copy of its
// arguments. The compiler includes this before each device source.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>

#include "kernels/cuda/runtime.h"
#include "tests/emulator/block.h"
#include "tests/emulator/indices.h"

#undef __shared__
#undef __launch_bounds__
#define __launch_bounds__(...)
#define STARLING_SHARED \
  static thread_local  // a block's threads are fibers of one thread, and blocks run one at a time

#define STARLING_UNROLL

inline void __syncthreads() { starling::emulator::meet(); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
// Streams are CPU threads and run concurrently.
template <class T>
T atomicAdd(T* p, T more) {
  return std::atomic_ref<T>(*p).fetch_add(more, std::memory_order_relaxed);
}
template <class T>
T atomicMax(T* p, T other) {
  const std::atomic_ref<T> place(*p);
  T before = place.load(std::memory_order_relaxed);
  while (before < other && !place.compare_exchange_weak(before, other, std::memory_order_relaxed)) {
  }
  return before;
}

namespace starling::emulator {

// Defined in enqueue.cc.
cudaError_t enqueue_kernel(cudaStream_t stream, dim3 grid, dim3 block, std::function<void()> work);

// Calls `thread` once for every thread of every block.
template <class F>
void run_apart(dim3 grid, dim3 block, const F& thread) {
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        for (unsigned k = 0; k < block.z; ++k) {
          for (unsigned j = 0; j < block.y; ++j) {
            for (unsigned i = 0; i < block.x; ++i) {
              threadIdx = {i, j, k};
              thread();
            }
          }
        }
      }
    }
  }
}

enum class Threads { apart, together };

template <class... Parameters, class... Arguments>
cudaError_t start(Threads threads, cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                  Arguments... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "as required for device kernels");
  const auto thread = [kernel, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    std::apply(kernel, values);
  };
  if (threads == Threads::apart) {
    return enqueue_kernel(stream, grid, block, [=] { run_apart(grid, block, thread); });
  }
  return enqueue_kernel(stream, grid, block, [=] {
    const auto call = [](const void* f) { (*static_cast<decltype(&thread)>(f))(); };
    run_together(grid, block, call, &thread);
  });
}

}  // namespace starling::emulator

namespace starling::kernels::cuda {

template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) {
  check(emulator::start(emulator::Threads::apart, stream.get(), grid, block, kernel, arguments...),
        "starting a kernel");
}

template <class... Parameters, class... Arguments>
void launch_together(Stream& stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                     Arguments... arguments) {
  check(emulator::start(emulator::Threads::together, stream.get(), grid, block, kernel, arguments...),
        "starting a kernel");
}

template <class T>
T shuffle_xor(T value, int bits) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= emulator::kShuffleBytes);
  emulator::shuffle(&value, sizeof value, bits);
  return value;
}

// As in launch.h.
inline void multiply_add(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (&c)[4]) {
  struct Words {
    std::uint32_t a[4], b[2];
  };
  Words own, all[emulator::kLanes];
  std::copy_n(a, 4, own.a);
  std::copy_n(b, 2, own.b);
  emulator::gather(&own, sizeof own, all);
  const auto half = [](std::uint32_t word, unsigned k) {
    return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000U);
  };
  const unsigned g = emulator::lane() / 4, t = emulator::lane() % 4 * 2;
  for (unsigned e = 0; e < 4; ++e) {
    for (unsigned k = 0; k < 16; ++k) {
      // The lane that has a[row, k], and that which has b[k, t + e % 2].
      const unsigned holds = k % 8 / 2, high = k / 8;
      const Words &left = all[g * 4 + holds], &right = all[(t + e % 2) * 4 + holds];
      c[e] += half(left.a[2 * high + e / 2], k) * half(right.b[high], k);
    }
  }
}

}  // namespace starling::kernels::cuda
