// The loops for AVX2 and FMA: a row is two registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/channels/loops.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::channels::avx2 {

#include "kernels/cpu/vectors/avx2_inl.h"

constexpr int kUnroll = 2;

#include "kernels/cpu/channels/loops_inl.h"

const Loops kLoops = all();

}  // namespace starling::kernels::cpu::channels::avx2

#endif
