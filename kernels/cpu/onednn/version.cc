#include "kernels/cpu/onednn/version.h"

#include <oneapi/dnnl/dnnl.h>

namespace starling::kernels::cpu {

bool has_bf16() {
  constexpr auto kWanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kWanted) == kWanted;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace starling::kernels::cpu
