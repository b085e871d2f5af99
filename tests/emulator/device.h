// The emulated devices of this process and their state: what they have, whether they are lost, and what CUDA
// keeps for each thread, the device that it uses and its last error.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/emulator/memory.h"

namespace starling::emulator {

struct Device {
  DeviceMemory memory;
};

// STARLING_EMULATOR_DEVICES of them, else one. They outlive everything.
const std::vector<Device*>& devices();
// That of the calling thread. REQUIRES: there is one.
int current_device();
Device& device();
cudaError_t use_device(int number);

// The device whose address it is, or null: the host's.
Device* device_of(const void* p);
// Whether `bytes` there lie in one allocation of a device.
bool on_device(const void* p, std::size_t bytes);

// Before all else in a call: what every call fails with just now.
cudaError_t begin_call();
// At its end: it becomes the thread's last error, unless it is a success or no error at all.
cudaError_t remember(cudaError_t status);
cudaError_t last_error(bool forget);

bool lost();

template <class F>
cudaError_t call(const F& body) {
  const cudaError_t status = begin_call();
  return remember(status == cudaSuccess ? body() : status);
}

}  // namespace starling::emulator
