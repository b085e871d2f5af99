// The emulated devices of this process and their state: memory, whether they are lost, and the calling
// thread's current device.
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

// Whether the devices have failed, which tests cause (testing.h).
bool lost();
void set_lost(bool lost);

}  // namespace starling::emulator
