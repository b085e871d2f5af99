// The loops for AVX-512.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms in GCC 12's own avx512fintrin.h
#endif

#include "kernels/cpu/sequences/loops.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::sequences::avx512 {

typedef float V __attribute__((vector_size(64), may_alias));
typedef float Unaligned __attribute__((vector_size(64), may_alias, aligned(4)));

constexpr int kWidth = 16, kTileRows = 8, kTileVectors = 2;

static inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
static inline __mmask16 first_bits(int count) { return static_cast<__mmask16>((1U << count) - 1); }
static inline V load_some(const float* p, int count) { return _mm512_maskz_loadu_ps(first_bits(count), p); }
static inline void store_some(float* p, V value, int count) {
  _mm512_mask_storeu_ps(p, first_bits(count), value);
}

#include "kernels/cpu/sequences/loops_inl.h"

const Loops kLoops = all();

}  // namespace starling::kernels::cpu::sequences::avx512

#endif
