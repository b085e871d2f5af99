#include "tests/emulator/multiply.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace starling::emulator {

namespace {

// Four rows at a time, so that each value read from b is used four times.
[[gnu::always_inline]] inline void loops(int m, int n, int k, const float* a, const float* b, float* c) {
  const auto row = [](auto* p, int i, int length) { return p + static_cast<std::size_t>(i) * length; };
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    float* __restrict__ c0 = row(c, i, n);
    float* __restrict__ c1 = row(c, i + 1, n);
    float* __restrict__ c2 = row(c, i + 2, n);
    float* __restrict__ c3 = row(c, i + 3, n);
    for (int l = 0; l < k; ++l) {
      const float a0 = row(a, i, k)[l], a1 = row(a, i + 1, k)[l];
      const float a2 = row(a, i + 2, k)[l], a3 = row(a, i + 3, k)[l];
      const float* __restrict__ bl = row(b, l, n);
      for (int j = 0; j < n; ++j) {
        c0[j] += a0 * bl[j];
        c1[j] += a1 * bl[j];
        c2[j] += a2 * bl[j];
        c3[j] += a3 * bl[j];
      }
    }
  }
  for (; i < m; ++i) {
    float* __restrict__ ci = row(c, i, n);
    for (int l = 0; l < k; ++l) {
      const float al = row(a, i, k)[l];
      const float* __restrict__ bl = row(b, l, n);
      for (int j = 0; j < n; ++j) ci[j] += al * bl[j];
    }
  }
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void wide(int m, int n, int k, const float* a, const float* b, float* c) {
  loops(m, n, k, a, b, c);
}
#endif

}  // namespace

void multiply(int m, int n, int k, const float* a, const float* b, float* c) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    wide(m, n, k, a, b, c);
    return;
  }
#endif
  loops(m, n, k, a, b, c);
}

float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return value;
  const std::uint32_t even = (bits >> 13) & 1;
  return std::bit_cast<float>((bits + 0xfffU + even) & ~0x1fffU);
}

}  // namespace starling::emulator
