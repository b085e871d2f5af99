#include "tests/emulator/device.h"

#include <atomic>
#include <cstdlib>

namespace starling::emulator {

namespace {

std::atomic<bool> g_lost{false};

thread_local int t_device = 0;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

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

int current_device() { return t_device; }

Device& device() { return *devices()[static_cast<std::size_t>(t_device)]; }

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

bool lost() { return g_lost.load(); }

void set_lost(bool lost) { g_lost = lost; }

}  // namespace starling::emulator
