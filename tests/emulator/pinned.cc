#include "tests/emulator/pinned.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace starling::emulator {

namespace {

constexpr std::size_t kPinnedAlignment = 512;

struct Pinned {
  std::mutex mutex;
  std::map<const char*, std::size_t> allocations;
  std::size_t bytes = 0;
};

Pinned& pinned() {
  static auto* all = new Pinned;
  return *all;
}

}  // namespace

void* allocate_pinned(std::size_t bytes) {
  void* p = std::aligned_alloc(kPinnedAlignment, (bytes / kPinnedAlignment + 1) * kPinnedAlignment);
  if (p == nullptr) return nullptr;
  std::memset(p, 0xff, bytes);  // NaNs: new memory is not guaranteed to be zero
  const std::lock_guard lock(pinned().mutex);
  pinned().allocations.emplace(static_cast<const char*>(p), bytes);
  pinned().bytes += bytes;
  return p;
}

bool release_pinned(void* p) {
  {
    const std::lock_guard lock(pinned().mutex);
    const auto found = pinned().allocations.find(static_cast<const char*>(p));
    if (found == pinned().allocations.end()) return false;
    pinned().bytes -= found->second;
    pinned().allocations.erase(found);
  }
  std::free(p);
  return true;
}

bool is_pinned(const void* p, std::size_t bytes) {
  const std::lock_guard lock(pinned().mutex);
  const auto* at = static_cast<const char*>(p);
  const auto behind = pinned().allocations.upper_bound(at);
  if (behind == pinned().allocations.begin()) return false;
  const auto& [begin, size] = *std::prev(behind);
  return at + bytes <= begin + size;
}

std::size_t pinned_bytes() {
  const std::lock_guard lock(pinned().mutex);
  return pinned().bytes;
}

}  // namespace starling::emulator
