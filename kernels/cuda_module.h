// The CUDA back end lies in a module of its own, libstarling_cuda.so, which the program loads when it is
// asked for: so one program runs on machines with CUDA's libraries and without, and the module alone is built
// with NVIDIA's compiler. What passes between them is this table of functions and the interfaces of
// kernels/*.h.
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
  std::string problem;       // why it cannot be used; empty: it can
};

// What the module offers. Any thread may call.
struct CudaModule {
  // kCudaModuleVersion of its build, and the first member in every build: whoever sees another number reads
  // no further.
  unsigned version;
  // "CUDA 13.0, driver 13.0, cuDNN 9.19.0, cuBLAS 13.1.0"
  std::string (*libraries)();
  // An Error says why there are none: no driver, no device.
  Result<std::vector<CudaDevice>> (*devices)();
  Result<std::unique_ptr<Backend>> (*make_backend)(int device, Precision precision);
};

// Where the module is looked for: where $STARLING_CUDA_MODULE says, else beside the program and in
// ../lib/starling of it.
std::vector<std::string> cuda_module_places();

// The module in the first of these files that there is; it stays loaded. The Error says what was looked for,
// and what is wrong with what was found.
Result<const CudaModule*> load_cuda_module(const std::vector<std::string>& places);

// That of cuda_module_places(), loaded once: later calls get what the first one got. With it come cuDNN and
// cuBLAS, some 200 MB of them resident.
Result<const CudaModule*> cuda_module();

// Whether it is worth asking it for devices: NVIDIA's driver is there, or a module was named.
bool may_have_gpu();

}  // namespace starling::kernels
