// Chooses among sets of loops that were made from one text for several instruction sets.
#pragma once

namespace starling::kernels::cpu {

// Whether the sets for AVX2 and AVX-512 are compiled.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define STARLING_WIDE_LOOPS 1
#else
#define STARLING_WIDE_LOOPS 0
#endif

// Whether the processor adds in other units than it multiplies, at the same time, as AMD's with AVX-512 do
// ("Software Optimization Guide for the AMD Zen4 Microarchitecture", section 2.11).
inline bool adds_apart() {
#if STARLING_WIDE_LOOPS
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

// The sets that this processor runs, the widest first, then null.
template <class Loops>
struct LoopSets {
  const Loops* sets[4] = {};

  // `avx512` and `avx2` may be null.
  LoopSets(const Loops* avx512, const Loops* avx2, const Loops* any) {
    const Loops** next = sets;
#if STARLING_WIDE_LOOPS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) *next++ = avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) *next++ = avx2;
#else
    (void)avx512, (void)avx2;
#endif
    *next = any;
  }
};

}  // namespace starling::kernels::cpu
