// The loops for any processor, and the choice.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/vectors/choice.h"

namespace starling::kernels::cpu::sequences {
namespace {

#include "kernels/cpu/vectors/any_inl.h"

constexpr int kTileRows = 4, kTileVectors = 2;
using LargeScheme = struct PlainProduct;
static bool multiplies_texts() { return false; }

#include "kernels/cpu/sequences/loops_inl.h"

const Loops kLoops = all();

}  // namespace

const Loops* const* all_loops() {
#if STARLING_WIDE_LOOPS
  static const LoopSets<Loops> all(&avx512::kLoops, &avx2::kLoops, &kLoops);
#else
  static const LoopSets<Loops> all(nullptr, nullptr, &kLoops);
#endif
  return all.sets;
}

const Loops& loops() { return *all_loops()[0]; }

}  // namespace starling::kernels::cpu::sequences
