#include "tests/emulator/calls.h"

#include <atomic>
#include <cstdlib>
#include <limits>

#include "tests/emulator/device.h"
#include "tests/emulator/pinned.h"
#include "tests/emulator/stream.h"
#include "tests/emulator/testing.h"

namespace starling::emulator {

namespace {

constexpr long kNever = std::numeric_limits<long>::max();

thread_local cudaError_t t_last = cudaSuccess;

long initial_calls() {
  const char* text = std::getenv("STARLING_EMULATOR_CALLS");
  return text == nullptr ? kNever : std::strtol(text, nullptr, 10);
}

// Calls until the devices are lost.
std::atomic<long> g_calls_left{initial_calls()};

}  // namespace

cudaError_t begin_call() {
  if (in_stream()) return cudaErrorNotPermitted;
  if (devices().empty()) return cudaErrorNoDevice;
  if (g_calls_left.load() != kNever && g_calls_left.fetch_sub(1) == 0) starling_emulator_lose_device();
  return lost() ? cudaErrorDevicesUnavailable : cudaSuccess;
}

cudaError_t remember(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) t_last = status;
  return status;
}

cudaError_t last_error(bool forget) {
  if (lost()) return cudaErrorDevicesUnavailable;
  const cudaError_t status = t_last;
  if (forget) t_last = cudaSuccess;
  return status;
}

}  // namespace starling::emulator

using starling::emulator::devices;

std::size_t starling_emulator_live_bytes() {
  std::size_t sum = starling::emulator::pinned_bytes();
  for (const auto* d : devices()) sum += d->memory.live();
  return sum;
}

void starling_emulator_set_memory(std::size_t bytes) {
  for (auto* d : devices()) d->memory.set_limit(bytes);
}

// On return nothing runs any more, so callers may release memory that the device was using.
void starling_emulator_lose_device() {
  starling::emulator::g_calls_left = starling::emulator::kNever;
  starling::emulator::set_lost(true);
  starling::emulator::drain_all();
}

void starling_emulator_lose_device_after(long calls) { starling::emulator::g_calls_left = calls; }

void starling_emulator_restore_device() {
  starling::emulator::g_calls_left = starling::emulator::kNever;
  starling::emulator::set_lost(false);
  starling::emulator::t_last = cudaSuccess;
}

bool starling_emulator_protects() { return !devices().empty() && devices().front()->memory.key() >= 0; }
