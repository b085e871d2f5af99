// What a test can ask of the emulated device beyond CUDA: what is still allocated, and accidents.
#pragma once

#include <cstddef>

#define STARLING_EMULATOR_EXPORT __attribute__((visibility("default")))

extern "C" {
// Bytes of all devices and of pinned memory that were asked for and not given back.
STARLING_EMULATOR_EXPORT std::size_t starling_emulator_live_bytes();
// What each device has from now on: less than is in use is allowed, and means that nothing is left.
// STARLING_EMULATOR_MEMORY in the environment says what it begins with, else it is 1 GiB.
STARLING_EMULATOR_EXPORT void starling_emulator_set_memory(std::size_t bytes);
// The devices fall off the bus, now or in the midst of the call after `calls` more (of the first ones, as many as
// STARLING_EMULATOR_CALLS in the environment says): no work is done any more, and calls fail with
// cudaErrorDevicesUnavailable. What is released is released nevertheless.
STARLING_EMULATOR_EXPORT void starling_emulator_lose_device();
STARLING_EMULATOR_EXPORT void starling_emulator_lose_device_after(long calls);
// A new beginning for the next test, which a real device does not grant within a process.
STARLING_EMULATOR_EXPORT void starling_emulator_restore_device();
// Whether threads of the host die (SIGSEGV) when they touch a device's memory: the processor must know
// protection keys.
STARLING_EMULATOR_EXPORT bool starling_emulator_protects();
}
