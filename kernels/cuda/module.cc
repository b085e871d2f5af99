// The functions that the program gets when it has loaded this back end (kernels/cuda_module.h): the list of
// devices, and a back end for a device.
#include "kernels/cuda_module.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <string>

#include "kernels/cuda/nccl.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability: bfloat16, and asynchronous graphs of all we use

// 13000 means 13.0.
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string triple(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string libraries() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  int blas[3] = {};
  const libraryPropertyType parts[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int i = 0; i < 3; ++i) cublasGetProperty(parts[i], blas + i);
  const auto dnn = static_cast<int>(cudnnGetVersion());  // 91900 is 9.19.0
  return "CUDA " + cuda_version(runtime) + ", " +
         (driver == 0 ? std::string("no driver") : "driver for CUDA " + cuda_version(driver)) + ", cuDNN " +
         triple(dnn / 10000, dnn % 10000 / 100, dnn % 100) + ", cuBLAS " + triple(blas[0], blas[1], blas[2]) +
         ", " + nccl_version();
}

// CUDA's message for the error, which CUDA then forgets.
std::string failure(const std::string& call, cudaError_t status) {
  cudaGetLastError();
  return call + " failed: " + cudaGetErrorString(status);
}

CudaDevice look_at(int number) {
  CudaDevice device;
  device.number = number;
  cudaDeviceProp properties;
  if (const auto status = cudaGetDeviceProperties(&properties, number); status != cudaSuccess) {
    device.problem = failure("cudaGetDeviceProperties", status);
    return device;
  }
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.memory_bytes = properties.totalGlobalMem;
  if (device.major < kLeastMajor) {
    device.problem = "its compute capability is " + std::to_string(device.major) + "." +
                     std::to_string(device.minor) + "; at least " + std::to_string(kLeastMajor) +
                     ".0 is needed";
    return device;
  }
  std::size_t total = 0;
  if (const auto status = cudaSetDevice(number); status != cudaSuccess) {
    device.problem = failure("cudaSetDevice(" + std::to_string(number) + ")", status);
  } else if (const auto info = cudaMemGetInfo(&device.free_bytes, &total); info != cudaSuccess) {
    device.problem = failure("cudaMemGetInfo", info);
  }
  return device;
}

Result<std::vector<CudaDevice>> devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return Error{"CUDA finds no GPU: " + failure("cudaGetDeviceCount", status)};
  if (count == 0) return Error{"CUDA finds no GPU"};
  std::vector<CudaDevice> found;
  for (int i = 0; i < count; ++i) found.push_back(look_at(i));
  return found;
}

Result<std::unique_ptr<Backend>> make(int number, Precision precision) {
  const auto found = devices();
  if (!found) return found.error();
  const std::string name = "cuda:" + std::to_string(number);
  if (number < 0 || number >= static_cast<int>(found->size())) {
    const std::size_t count = found->size();
    return Error{name + " does not exist: this machine has " +
                 (count == 1 ? "one GPU, cuda:0"
                             : std::to_string(count) + " GPUs, cuda:0 to cuda:" + std::to_string(count - 1))};
  }
  const CudaDevice& device = (*found)[static_cast<std::size_t>(number)];
  if (!device.problem.empty()) return Error{name + " (" + device.name + "): " + device.problem};
  try {
    return make_backend(number, precision);
  } catch (const DeviceError& error) {
    return Error{error.what()};
  }
}

constexpr CudaModule kModule{kCudaModuleVersion, libraries, devices, make};

}  // namespace
}  // namespace starling::kernels::cuda

extern "C" __attribute__((visibility("default"))) const starling::kernels::CudaModule*
starling_cuda_module() {
  return &starling::kernels::cuda::kModule;
}
