#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cuda/host_loops.h"

#include <bit>
#include <cstdint>

#include "kernels/packing.h"

// Not under a sanitizer, whose runtime is not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SEVERAL_PROCESSORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SEVERAL_PROCESSORS
#endif

namespace starling::kernels::cuda {
SEVERAL_PROCESSORS float copy_and_look(const float* __restrict from, float* __restrict to, std::size_t n) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = from[i];
    const std::int32_t bits = magnitude_bits(value);
    largest = bits > largest ? bits : largest;
    to[i] = value;
  }
  return std::bit_cast<float>(largest);
}

float larger_magnitude(float a, float b) {
  return magnitude_bits(a) > magnitude_bits(b) ? a : b;
}

SEVERAL_PROCESSORS void scaled_difference(const float* __restrict theirs, const float* __restrict own, float w,
                                          float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = w * (theirs[i] - own[i]);
}

}  // namespace starling::kernels::cuda
