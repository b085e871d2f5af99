#include "kernels/cpu/lanes/kernels.h"

namespace starling::kernels::cpu::lanes {

const Kernels* kernels() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return &avx512::kKernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::kKernels;
#endif
  return nullptr;
}

}  // namespace starling::kernels::cpu::lanes
