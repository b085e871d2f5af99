// The lanes loops for AVX-512: 16 lanes, 32 registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms in GCC 12's own avx512fintrin.h
#endif

#include "kernels/cpu/lanes/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::lanes::avx512 {

typedef float V __attribute__((vector_size(64), may_alias));
typedef float Unaligned __attribute__((vector_size(64), may_alias, aligned(4)));

constexpr int kLanes = 16;
// 12 x 2 sums; up to 20 sums, 4 gradients.
constexpr int kGroup = 12;
constexpr int kSums = 20;

static inline V load(const float* p) { return *reinterpret_cast<const V*>(p); }
static inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store(float* p, V value) { *reinterpret_cast<V*>(p) = value; }
static inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
static inline V broadcast(const float* p) { return _mm512_set1_ps(*p); }

// A bit for each lane that is > 0.
static inline unsigned short positive_bits(V value) {
  return static_cast<unsigned short>(_mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_GT_OQ));
}
// `value` where the bit is set, else 0.
static inline V keep(V value, unsigned bits) {
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(bits), value);
}
// to[k] += the sum of values[k]'s lanes, for k < 4.
static inline void add_sums4(const V* values, float* to) {
  __m256 half[4];
  for (int k = 0; k < 4; ++k) {
    half[k] = _mm256_add_ps(_mm512_castps512_ps256(values[k]), _mm512_extractf32x8_ps(values[k], 1));
  }
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), sums));
}

#include "kernels/cpu/lanes/kernels_inl.h"

}  // namespace starling::kernels::cpu::lanes::avx512

#endif
