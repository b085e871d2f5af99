// The GPU for tests: the machine's first, otherwise the emulated one (tests/emulator), if the build has it.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda_module.h"
#include "tests/catch.h"

namespace starling::kernels {

// Whether tests must fail, instead of using something else, if there is no GPU (scripts/gpu-check).
inline bool gpu_is_a_must() {
  const char* text = std::getenv("STARLING_TESTS_GPU");
  return text != nullptr && std::string_view(text) == "must";
}

// The module whose devices tests use; null, with a warning, if there is none.
inline const CudaModule* gpu_module() {
  static const CudaModule* const module = []() -> const CudaModule* {
    std::string why;
    std::vector<std::vector<std::string>> candidates{cuda_module_places()};
#ifdef STARLING_EMULATED_MODULE
    if (!gpu_is_a_must()) candidates.push_back({STARLING_EMULATED_MODULE});
    ::setenv("STARLING_EMULATOR_DEVICES", "4", 0);  // read only by the emulator
#endif
    for (const auto& places : candidates) {
      const auto loaded = load_cuda_module(places);
      if (!loaded) {
        why = loaded.error().message;
        continue;
      }
      const auto devices = (*loaded)->devices();
      if (devices && !devices->empty() && devices->front().problem.empty()) return *loaded;
      why = devices ? devices->front().problem : devices.error().message;
    }
    if (gpu_is_a_must()) FAIL("STARLING_TESTS_GPU=must, but there is no GPU: " << why);
    WARN("skipped on a GPU: " << why);
    return nullptr;
  }();
  return module;
}

// A back end on the GPU; null if there is none.
inline std::unique_ptr<Backend> gpu_backend(Precision precision = Precision::f32) {
  const CudaModule* module = gpu_module();
  if (module == nullptr) return nullptr;
  auto backend = module->make_backend(0, precision);
  REQUIRE(backend.ok());
  return std::move(*backend);
}

}  // namespace starling::kernels
