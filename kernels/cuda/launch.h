// Starts kernels, and defines the few parts of CUDA's language that they use. The rest of the device code is
// plain C++, so that the same files compile for the processor (tests/emulator), where a block's threads take
// turns and another header replaces these definitions. Kernels use threadIdx, blockIdx, blockDim and gridDim
// and, if launched together, __syncthreads(), STARLING_SHARED arrays of fixed size, and the shuffles and
// products of this header.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {

inline constexpr unsigned kWarp = 32;

#ifndef STARLING_CUDA_EMULATED
#define STARLING_SHARED __shared__
// Before a loop of a fixed length: arrays that it indexes stay in registers, also if its body is long.
#define STARLING_UNROLL _Pragma("unroll")

// kernel<<<grid, block>>> on the stream, for independent threads. Throws DeviceError.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) {
  const auto begin = [&](Parameters... values) {
    void* places[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, places, 0, stream.get()),
          "cudaLaunchKernel");
  };
  begin(static_cast<Parameters>(arguments)...);
}

// The same for threads of a block that use __syncthreads() or shuffles.
template <class... Parameters, class... Arguments>
void launch_together(Stream& stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                     Arguments... arguments) {
  launch(stream, grid, block, kernel, arguments...);
}

// The value of the lane whose number differs in these bits. REQUIRES: all lanes of the warp call it.
template <class T>
__device__ T shuffle_xor(T value, int bits) {
  return __shfl_xor_sync(0xffffffffU, value, bits);
}

// c += a b on the tensor cores, for a warp: a is 16 x 16, b is 16 x 8, both of bfloat16, two in a word, the
// first one in the lower half; c is 16 x 8. With g = lane / 4 and t = lane % 4 x 2, a lane has
// a[g, t..], a[g + 8, t..], a[g, t + 8..], a[g + 8, t + 8..]; b[t.., g], b[t + 8.., g];
// c[g, t], c[g, t + 1], c[g + 8, t], c[g + 8, t + 1]. REQUIRES: all lanes of the warp call it.
__device__ inline void multiply_add(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// The number of blocks of `block` threads, so that each thread has one of n values; at most `most`, whose
// threads then take several.
inline unsigned blocks_for(std::size_t n, unsigned block, unsigned most = 1U << 16) {
  const std::size_t blocks = (n + block - 1) / block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// Conversions between stored numbers, float or bfloat16 (rounded to nearest), and float, in which all
// arithmetic is.
__host__ __device__ inline float to_float(float value) { return value; }
__host__ __device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__host__ __device__ T from_float(float value);
template <>
__host__ __device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__host__ __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// The sum over the lanes of a warp, returned to each of them. REQUIRES: all lanes call it.
__device__ inline float warp_sum(float value) {
  for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) value += shuffle_xor(value, bits);
  return value;
}

}  // namespace starling::kernels::cuda
