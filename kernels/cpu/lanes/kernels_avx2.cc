// The lanes loops for AVX2 and FMA: 8 lanes, 16 registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/lanes/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::lanes::avx2 {

typedef float V __attribute__((vector_size(32), may_alias));
typedef float Unaligned __attribute__((vector_size(32), may_alias, aligned(4)));

constexpr int kLanes = 8;
// 6 x 2 sums, 2 inputs and a factor; up to 10 sums of 2 gradients and an
// input.
constexpr int kGroup = 6;
constexpr int kSums = 10;

static inline V load(const float* p) { return *reinterpret_cast<const V*>(p); }
static inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store(float* p, V value) { *reinterpret_cast<V*>(p) = value; }
static inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
static inline V broadcast(const float* p) { return _mm256_broadcast_ss(p); }

// A bit for each lane that is > 0.
static inline unsigned short positive_bits(V value) {
  return static_cast<unsigned short>(
      _mm256_movemask_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_GT_OQ)));
}
// `value` where the bit is set, else 0.
static inline V keep(V value, unsigned bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set =
      _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane), lane);
  return _mm256_and_ps(value, _mm256_castsi256_ps(set));
}
// to[k] += the sum of values[k]'s lanes, for k < 4.
static inline void add_sums4(const V* values, float* to) {
  const __m256 pairs =
      _mm256_hadd_ps(_mm256_hadd_ps(values[0], values[1]), _mm256_hadd_ps(values[2], values[3]));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), sums));
}

#include "kernels/cpu/lanes/kernels_inl.h"

}  // namespace starling::kernels::cpu::lanes::avx2

#endif
