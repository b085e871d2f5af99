// The loops for AVX-512.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms in GCC 12's own avx512fintrin.h
#endif

#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/vectors/choice.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

namespace starling::kernels::cpu::sequences::avx512 {

#include "kernels/cpu/vectors/avx512_inl.h"

constexpr int kTileRows = 8, kTileVectors = 2;
using LargeScheme = struct PairedProduct;
static bool multiplies_texts() { return adds_apart(); }

#include "kernels/cpu/sequences/loops_inl.h"

const Loops kLoops = all();

}  // namespace starling::kernels::cpu::sequences::avx512

#endif
