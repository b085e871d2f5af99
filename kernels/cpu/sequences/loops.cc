// The loops for any processor, and the choice.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cpu/sequences/loops.h"

namespace starling::kernels::cpu::sequences {
namespace {

typedef float V __attribute__((vector_size(16), may_alias));
typedef float Unaligned __attribute__((vector_size(16), may_alias, aligned(4)));

constexpr int kWidth = 4, kTileRows = 4, kTileVectors = 2;

inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
inline V load_some(const float* p, int count) {
  V value{};
  for (int i = 0; i < kWidth && i < count; ++i) value[i] = p[i];
  return value;
}
inline void store_some(float* p, V value, int count) {
  for (int i = 0; i < kWidth && i < count; ++i) p[i] = value[i];
}

#include "kernels/cpu/sequences/loops_inl.h"

const Loops kLoops = all();

}  // namespace

const Loops* const* all_loops() {
  struct List {
    const Loops* loops[4] = {};
    List() {
      const Loops** next = loops;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) *next++ = &avx512::kLoops;
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) *next++ = &avx2::kLoops;
#endif
      *next = &kLoops;
    }
  };
  static const List list;
  return list.loops;
}

const Loops& loops() { return *all_loops()[0]; }

}  // namespace starling::kernels::cpu::sequences
