// Test controls of the emulated device: allocated memory and simulated failures.
#pragma once

#include <cstddef>

#define STARLING_EMULATOR_EXPORT __attribute__((visibility("default")))

extern "C" {
// Bytes of device and pinned memory currently allocated.
STARLING_EMULATOR_EXPORT std::size_t starling_emulator_live_bytes();
// Sets each device's memory size. It may be less than what is in use; then nothing is left. The initial size
// is STARLING_EMULATOR_MEMORY or 1 GiB.
STARLING_EMULATOR_EXPORT void starling_emulator_set_memory(std::size_t bytes);
// Makes the devices fail, immediately or during the call after `calls` more (initially
// STARLING_EMULATOR_CALLS): no more work is done, and calls fail with cudaErrorDevicesUnavailable. Resources
// can still be released.
STARLING_EMULATOR_EXPORT void starling_emulator_lose_device();
STARLING_EMULATOR_EXPORT void starling_emulator_lose_device_after(long calls);
// Resets the devices for the next test, which a real device does not allow within a process.
STARLING_EMULATOR_EXPORT void starling_emulator_restore_device();
// Whether host threads that access device memory are killed (SIGSEGV): needs a processor with protection
// keys.
STARLING_EMULATOR_EXPORT bool starling_emulator_protects();
}
