#include "kernels/cpu/onednn/version.h"

#include <oneapi/dnnl/dnnl.h>

namespace starling::kernels::cpu {

namespace {

bool uses(dnnl_cpu_isa_t isa) {
  const auto wanted = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace

bool has_bf16() { return uses(dnnl_cpu_isa_avx512_core_bf16); }

bool has_winograd() { return dnnl_version()->major == 2 && uses(dnnl_cpu_isa_avx512_core); }

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace starling::kernels::cpu
