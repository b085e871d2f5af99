// Loads and stores of several neighboring values at once: a thread that moves 16 bytes at a time keeps four
// times as much of the memory's bandwidth busy as one that moves a float. Values are float in registers,
// whatever they are stored as.
#pragma once

#include "kernels/cuda/format.h"
#include "kernels/cuda/launch.h"

namespace starling::kernels::cuda {

inline constexpr unsigned kThreads = 256;  // of most blocks

// Values of T in 16 bytes.
template <class T>
inline constexpr unsigned kWide = 16 / sizeof(T);

// REQUIRES, of both: the place is a multiple of V values from a 16-byte boundary.
template <unsigned V, class T>
__device__ inline void load(const T* from, float (&to)[V]) {
  struct alignas(V * sizeof(T)) Values {
    T at[V];
  };
  const Values values = *reinterpret_cast<const Values*>(from);
  for (unsigned v = 0; v < V; ++v) to[v] = to_float(values.at[v]);
}
template <unsigned V, class T>
__device__ inline void store(const float (&from)[V], T* to) {
  struct alignas(V * sizeof(T)) Values {
    T at[V];
  };
  Values values;
  for (unsigned v = 0; v < V; ++v) values.at[v] = from_float<T>(from[v]);
  *reinterpret_cast<Values*>(to) = values;
}

// `n` as kernels count. Beyond 2^31 values (8 GiB of floats) 32-bit indices would end; a device is then asked
// for too much, and DeviceError says so.
unsigned counted(std::size_t n);
inline unsigned counted(const Activation& activation) {
  const Plain* plain = as_plain(activation);
  if (plain == nullptr) return counted(activation.shape.size());
  return counted(activation.floats);  // of a window, all that is stored
}

// The first value of each of the calling thread's turns, of `n` values of which every thread takes V at a
// time: calls whole(i) where there are V, and single(i) for each of the last n % V.
template <unsigned V, class Whole, class Single>
__device__ inline void each_wide(unsigned n, const Whole& whole, const Single& single) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (unsigned i = thread; i < n / V; i += threads) whole(i * V);
  const unsigned rest = n / V * V + thread;
  if (rest < n) single(rest);
}

}  // namespace starling::kernels::cuda
