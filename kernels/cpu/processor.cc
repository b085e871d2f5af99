#include "kernels/cpu/processor.h"

#include <sys/utsname.h>

#include <fstream>

#include "kernels/cpu/tiles/tiles.h"

namespace starling::kernels::cpu {

std::vector<InstructionSet> instruction_sets() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return {{"avx2", avx2, "8 floats at a time"},
          {"avx512", avx512, "16 floats at a time"},
          {"avx512-bf16", __builtin_cpu_supports("avx512bf16") != 0, "products of bfloat16"},
          {"amx-bf16", tiles::available(), "matrix tiles of bfloat16"}};
#else
  return {};
#endif
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  return ::uname(&system) == 0 ? system.machine : "unknown";
}

}  // namespace starling::kernels::cpu
