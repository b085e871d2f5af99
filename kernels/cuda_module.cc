#include "kernels/cuda_module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/program.h"

namespace starling::kernels {

namespace {

constexpr const char* kFile = "libstarling_cuda.so";
constexpr const char* kEntry = "starling_cuda_module";

Error refuse(const std::string& path, const std::string& why) {
  return Error{"the CUDA back end in " + path + " " + why};
}

Result<const CudaModule*> load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(path, "cannot be loaded: " + std::string(dlerror()));
  // It stays loaded, because CUDA's libraries cannot be unloaded.
  void* entry = dlsym(library, kEntry);
  if (entry == nullptr) {
    return refuse(path, "is not a back end: the file has no " + std::string(kEntry) + "()");
  }
  const CudaModule* module = reinterpret_cast<const CudaModule* (*)()>(entry)();
  if (module->version != kCudaModuleVersion) {
    return refuse(path, "belongs to another build of Starling; both must come from one build");
  }
  return module;
}

}  // namespace

std::vector<std::string> cuda_module_places() {
  if (const char* path = std::getenv("STARLING_CUDA_MODULE"); path != nullptr) return {path};
  const auto program = program_path();
  if (program.empty()) return {kFile};  // in the loader's search path
  const auto folder = program.parent_path();
  return {folder / kFile, (folder / "../lib/starling" / kFile).lexically_normal()};
}

Result<const CudaModule*> load_cuda_module(const std::vector<std::string>& places) {
  std::string list;
  for (const auto& path : places) {
    std::error_code error;
    if (path == kFile || std::filesystem::exists(path, error)) return load(path);
    list += (list.empty() ? "" : " or ") + path;
  }
  return Error{"the CUDA back end is not installed at " + list +
               " (building it needs the CUDA toolkit and cuDNN; STARLING_CUDA_MODULE can name another path)"};
}

Result<const CudaModule*> cuda_module() {
  static const Result<const CudaModule*> kModule = load_cuda_module(cuda_module_places());
  return kModule;
}

bool may_have_gpu() {
  if (std::getenv("STARLING_CUDA_MODULE") != nullptr) return true;
  static const bool kDriver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return kDriver;
}

}  // namespace starling::kernels
