// CUDA's functions for devices, versions and errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/emulator/calls.h"
#include "tests/emulator/device.h"

namespace emulator = starling::emulator;

namespace {

constexpr int kMajor = 9, kMinor = 0;  // supports bfloat16 tensor cores
constexpr int kMultiprocessors = 4;

cudaDeviceProp properties(int number) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "emulated device %d", number);
  p.totalGlobalMem = emulator::devices()[static_cast<std::size_t>(number)]->memory.limit();
  p.major = kMajor;
  p.minor = kMinor;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.sharedMemPerBlock = 48 << 10;
  p.regsPerBlock = 64 << 10;
  p.multiProcessorCount = kMultiprocessors;
  p.asyncEngineCount = 2;
  p.concurrentKernels = 1;
  p.unifiedAddressing = 1;
  const int block[] = {1024, 1024, 64}, grid[] = {0x7fffffff, 65535, 65535};
  std::copy_n(block, 3, p.maxThreadsDim);
  std::copy_n(grid, 3, p.maxGridSize);
  return p;
}

bool exists(int device) { return device >= 0 && device < static_cast<int>(emulator::devices().size()); }

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return emulator::call([&] {
    *count = static_cast<int>(emulator::devices().size());
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return emulator::call([&] { return emulator::use_device(device); });
}

cudaError_t cudaGetDevice(int* device) {
  return emulator::call([&] {
    *device = emulator::current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* answer, int device) {
  return emulator::call([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    *answer = properties(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return emulator::call([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    const cudaDeviceProp p = properties(device);
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
      case cudaDevAttrWarpSize:
        *value = p.warpSize;
        break;
      case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        break;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(p.sharedMemPerBlock);
        break;
      case cudaDevAttrMemoryPoolsSupported:
        *value = 0;
        break;
      default:
        return cudaErrorInvalidValue;  // add further attributes here when needed
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return emulator::last_error(true); }

cudaError_t cudaPeekAtLastError() { return emulator::last_error(false); }

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorDevicesUnavailable:
      return "cudaErrorDevicesUnavailable";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNotPermitted:
      return "cudaErrorNotPermitted";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
    default:
      return "an error that the emulator does not report";
  }
}

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    default:
      return cudaGetErrorName(status);
  }
}
