// A CUDA module of another build, as seen by the program's loader.
#include "kernels/cuda_module.h"

extern "C" __attribute__((visibility("default"))) const starling::kernels::CudaModule*
starling_cuda_module() {
  static const starling::kernels::CudaModule kModule{starling::kernels::kCudaModuleVersion + 1, nullptr,
                                                     nullptr, nullptr};
  return &kModule;
}
