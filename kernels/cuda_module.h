// The CUDA back end is a module, libstarling_cuda.so, which the program loads on request. So one program runs
// on machines with and without CUDA's libraries, and only the module is built with NVIDIA's compiler. The
// interface is this table of functions and kernels/*.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda_module_version.h"

namespace starling::kernels {

struct CudaDevice {
  int number = 0;
  std::string name;
  std::size_t memory_bytes = 0, free_bytes = 0;
  int major = 0, minor = 0;  // its compute capability
  std::string problem;       // why it cannot be used; empty if it can
};

// The module's functions. Any thread may call them.
struct CudaModule {
  // kCudaModuleVersion of its build. The first member in every build, because a program reads no further if
  // it differs.
  unsigned version;
  // "CUDA 13.0, driver 13.0, cuDNN 9.19.0, cuBLAS 13.1.0"
  std::string (*libraries)();
  // An Error without a driver or a device.
  Result<std::vector<CudaDevice>> (*devices)();
  Result<std::unique_ptr<Backend>> (*make_backend)(int device, Precision precision);
};

// The paths of the module: $STARLING_CUDA_MODULE, or else beside the program and in ../lib/starling of it.
std::vector<std::string> cuda_module_places();

// Loads the module from the first of these files that exists; it stays loaded. The Error lists the paths or
// names what is wrong with the file.
Result<const CudaModule*> load_cuda_module(const std::vector<std::string>& places);

// The module from cuda_module_places(), loaded once; later calls return the same result. cuDNN and cuBLAS,
// which come with it, take some 200 MB of memory.
Result<const CudaModule*> cuda_module();

// Whether there may be a GPU: NVIDIA's driver is installed, or $STARLING_CUDA_MODULE is set.
bool may_have_gpu();

}  // namespace starling::kernels
