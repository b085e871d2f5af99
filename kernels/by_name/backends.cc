#include "kernels/by_name/backends.h"

#include <optional>

#include "base/text.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/onednn/version.h"
#include "kernels/cpu/tiles/tiles.h"
#include "kernels/cuda_module.h"
#include "kernels/reference/backend.h"

namespace starling::kernels {

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names{"cpu", "reference"};
  return names;
}

namespace {

// N of "cuda:N".
std::optional<int> gpu_number(std::string_view name) {
  constexpr std::string_view kGpu = "cuda:";
  if (!name.starts_with(kGpu)) return std::nullopt;
  return parse_number<int>(name.substr(kGpu.size()));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, Precision precision) {
  if (const auto number = gpu_number(name)) {
    const auto module = cuda_module();
    if (!module) return module.error();
    return (*module)->make_backend(*number, precision);
  }
  if (name == "cpu" && precision == Precision::bf16 && !cpu::has_bf16()) {
    return Error{"this processor has no arithmetic for bfloat16 (AVX512-BF16 or AMX); use precision f32"};
  }
  if (name == "cpu" && precision == Precision::tf32) {
    return Error{"tf32 precision is for GPUs; on a processor use f32 or, if it has the instructions, bf16"};
  }
  if (name == "cpu") return cpu::make_backend(precision);
  if (name == "reference" && precision != Precision::f32) {
    return Error{"the reference back end has only f32 precision"};
  }
  if (name == "reference") return reference::make_backend();
  return Error{"unknown back end \"" + std::string(name) + "\"; accepted are " + one_of(backend_names())};
}

bool has_matrix_tiles() { return cpu::tiles::available(); }

bool has_bfloat16_products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

std::string best_device(std::uint32_t place) {
  if (!may_have_gpu()) return "cpu";
  const auto module = cuda_module();
  if (!module) return "cpu";
  const auto devices = (*module)->devices();
  if (!devices) return "cpu";
  std::vector<int> usable;
  for (const CudaDevice& device : *devices)
    if (device.problem.empty()) usable.push_back(device.number);
  return usable.empty() ? "cpu" : "cuda:" + std::to_string(usable[place % usable.size()]);
}

}  // namespace starling::kernels
