// Loads and stores of several neighboring values: a thread that moves 16 bytes at a time uses four times as
// much of the memory's bandwidth as one that moves a float. In registers values are float.
#pragma once

#include "kernels/cuda/format.h"
#include "kernels/cuda/launch.h"

namespace starling::kernels::cuda {

inline constexpr unsigned kThreads = 256;  // of most blocks

// Values of T in 16 bytes.
template <class T>
inline constexpr unsigned kWide = 16 / sizeof(T);

// Both REQUIRE that the address is a multiple of V values.
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

// n as an index of kernels, which are 32-bit. Throws DeviceError for 2^31 values or more (8 GiB of floats).
inline unsigned counted(std::size_t n) {
  if (n <= 0x7fffffff) return static_cast<unsigned>(n);
  throw DeviceError("a layer has " + std::to_string(n) +
                    " values, more than the device's kernels can count; use a smaller batch");
}
inline unsigned counted(const Activation& activation) {
  const Plain* plain = as_plain(activation);
  if (plain == nullptr) return counted(activation.shape.size());
  return counted(activation.floats);  // all that is stored, for a window
}

// Divides n values among all threads: calls whole(i) for V values at i, and single(i) for each of the last n
// % V.
template <unsigned V, class Whole, class Single>
__device__ inline void each_wide(unsigned n, const Whole& whole, const Single& single) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (unsigned i = thread; i < n / V; i += threads) whole(i * V);
  const unsigned rest = n / V * V + thread;
  if (rest < n) single(rest);
}

}  // namespace starling::kernels::cuda
