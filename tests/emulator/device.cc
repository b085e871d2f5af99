#include "tests/emulator/device.h"

#include <atomic>
#include <cstdlib>
#include <limits>

#include "tests/emulator/pinned.h"
#include "tests/emulator/stream.h"
#include "tests/emulator/testing.h"

namespace starling::emulator {

namespace {

constexpr long kNever = std::numeric_limits<long>::max();

std::atomic<bool> g_lost{false};

thread_local int t_device = 0;
thread_local cudaError_t t_last = cudaSuccess;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Calls until the devices are lost.
std::atomic<long> g_calls_left{static_cast<long>(setting("STARLING_EMULATOR_CALLS", kNever))};

}  // namespace

const std::vector<Device*>& devices() {
  static const auto* all = [] {
    auto* made = new std::vector<Device*>;
    const std::size_t memory = setting("STARLING_EMULATOR_MEMORY", std::size_t{1} << 30);
    for (std::size_t i = setting("STARLING_EMULATOR_DEVICES", 1); i > 0; --i) {
      made->push_back(new Device{DeviceMemory(memory)});
    }
    return made;
  }();
  return *all;
}

int current_device() {
  return t_device;
}

Device& device() {
  return *devices()[static_cast<std::size_t>(t_device)];
}

cudaError_t use_device(int number) {
  if (number < 0 || number >= static_cast<int>(devices().size())) return cudaErrorInvalidDevice;
  t_device = number;
  return cudaSuccess;
}

Device* device_of(const void* p) {
  for (Device* d : devices()) {
    if (d->memory.covers(p)) return d;
  }
  return nullptr;
}

bool on_device(const void* p, std::size_t bytes) {
  const Device* d = device_of(p);
  return d != nullptr && d->memory.holds(p, bytes);
}

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

bool lost() {
  return g_lost.load();
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
  starling::emulator::g_lost = true;
  starling::emulator::drain_all();
}

void starling_emulator_lose_device_after(long calls) {
  starling::emulator::g_calls_left = calls;
}

void starling_emulator_restore_device() {
  starling::emulator::g_calls_left = starling::emulator::kNever;
  starling::emulator::g_lost = false;
  starling::emulator::t_last = cudaSuccess;
}

bool starling_emulator_protects() {
  return !devices().empty() && devices().front()->memory.key() >= 0;
}
