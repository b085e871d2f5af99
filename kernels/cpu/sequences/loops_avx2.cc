// The loops for AVX2 and FMA.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/sequences/loops.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::sequences::avx2 {

#include "kernels/cpu/vectors/avx2_inl.h"

constexpr int kTileRows = 6, kTileVectors = 2;
using LargeScheme = struct PlainProduct;
static bool multiplies_texts() { return true; }

#include "kernels/cpu/sequences/loops_inl.h"

const Loops kLoops = all();

}  // namespace starling::kernels::cpu::sequences::avx2

#endif
