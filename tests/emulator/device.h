// The emulated devices of this process and their state: memory, whether they are lost, and CUDA's per-thread
// state: the current device and the last error.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/emulator/memory.h"

namespace starling::emulator {

struct Device {
  DeviceMemory memory;
};

// STARLING_EMULATOR_DEVICES devices, default one. They are never destroyed.
const std::vector<Device*>& devices();
// The calling thread's device. REQUIRES: there is one.
int current_device();
Device& device();
cudaError_t use_device(int number);

// The device that owns the address; null for host memory.
Device* device_of(const void* p);
// Whether `bytes` at the address lie in one device allocation.
bool on_device(const void* p, std::size_t bytes);

// Called first in every function: the error that every call currently fails with.
cudaError_t begin_call();
// Called last in every function: stores the thread's last error unless it is a success.
cudaError_t remember(cudaError_t status);
cudaError_t last_error(bool forget);

bool lost();

template <class F>
cudaError_t call(const F& body) {
  const cudaError_t status = begin_call();
  return remember(status == cudaSuccess ? body() : status);
}

}  // namespace starling::emulator
