#include "tests/emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes) static_cast<void>(p)
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) static_cast<void>(p)
#endif

namespace starling::emulator {

namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kRedZone = 512;  // after each allocation, in addition to the rest of its last 512 bytes
constexpr std::uint16_t kFresh = 0x7fa1;  // a signaling NaN as bfloat16 and, twice, as float32
constexpr std::size_t kLarge = std::size_t{1}
                               << 20;  // from this size on, released pages go back to the system

// A large address range, so that only the limit decides what fits, not fragmentation.
constexpr std::size_t kAddresses = std::size_t{64} << 30;

std::size_t rounded(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
}

void fill(char* p, std::size_t bytes) {
  std::fill_n(reinterpret_cast<std::uint16_t*>(p), bytes / sizeof kFresh, kFresh);
}

// Whether the bytes are still as fill() left them.
bool is_whole(const char* p, std::size_t from, std::size_t bytes) {
  char fresh[sizeof kFresh];
  std::memcpy(fresh, &kFresh, sizeof kFresh);
  for (std::size_t i = from; i < bytes; ++i) {
    if (p[i] != fresh[i % sizeof kFresh]) return false;
  }
  return true;
}

}  // namespace

Access::Access(int key, bool allowed) : key_(key) {
  if (key_ < 0) return;
  before_ = pkey_get(key_);
  pkey_set(key_, allowed ? 0 : PKEY_DISABLE_ACCESS);
}

Access::~Access() {
  if (key_ >= 0) pkey_set(key_, static_cast<unsigned>(before_));
}

DeviceMemory::DeviceMemory(std::size_t limit) : limit_(limit), key_(pkey_alloc(0, PKEY_DISABLE_ACCESS)) {
  for (extent_ = kAddresses; extent_ >= kAlignment; extent_ /= 2) {
    void* p =
        mmap(nullptr, extent_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    base_ = static_cast<char*>(p);
    break;
  }
  STARLING_CHECK(base_ != nullptr);
  madvise(base_, extent_, MADV_DONTDUMP);
  if (key_ >= 0) STARLING_CHECK(pkey_mprotect(base_, extent_, PROT_READ | PROT_WRITE, key_) == 0);
  gaps_.emplace(0, extent_);
}

// First fit.
std::size_t DeviceMemory::place_for(std::size_t size) {
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& g) { return g.second >= size; });
  if (gap == gaps_.end()) return extent_;
  const auto [place, room] = *gap;
  gaps_.erase(gap);
  if (room > size) gaps_.emplace(place + size, room - size);
  return place;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ || used_ + rounded(bytes) > limit_) return nullptr;
  const std::size_t size = rounded(bytes) + kRedZone;
  const std::size_t place = place_for(size);
  if (place == extent_) return nullptr;
  allocations_.emplace(place, bytes);
  used_ += rounded(bytes);
  live_ += bytes;

  char* p = base_ + place;
  const Access access(key_);
  ASAN_UNPOISON_MEMORY_REGION(p, size);
  fill(p, size);
  ASAN_POISON_MEMORY_REGION(p, size);
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  return p;
}

bool DeviceMemory::release(void* p) {
  const std::lock_guard lock(mutex_);
  if (!covers(p)) return false;
  const auto place = static_cast<std::size_t>(static_cast<char*>(p) - base_);
  const auto found = allocations_.find(place);
  if (found == allocations_.end()) return false;
  const std::size_t bytes = found->second, size = rounded(bytes) + kRedZone;
  allocations_.erase(found);
  used_ -= rounded(bytes);
  live_ -= bytes;

  char* begin = base_ + place;
  {
    const Access access(key_);
    ASAN_UNPOISON_MEMORY_REGION(begin, size);
    if (!is_whole(begin, bytes, size)) {
      std::fprintf(stderr, "emulated device: write past the end of an allocation of %zu bytes\n", bytes);
      std::abort();
    }
    if (size < kLarge) fill(begin, size);
    ASAN_POISON_MEMORY_REGION(begin, size);
  }
  if (size >= kLarge) {
    const auto page = [](std::uintptr_t a) { return a / 4096 * 4096; };
    const auto first = page(reinterpret_cast<std::uintptr_t>(begin) + 4095);
    const auto last = page(reinterpret_cast<std::uintptr_t>(begin) + size);
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }

  auto gap = gaps_.emplace(place, size).first;
  if (const auto next = std::next(gap); next != gaps_.end() && next->first == place + size) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
  return true;
}

bool DeviceMemory::covers(const void* p) const {
  const auto address = reinterpret_cast<std::uintptr_t>(p), base = reinterpret_cast<std::uintptr_t>(base_);
  return address >= base && address < base + extent_;
}

bool DeviceMemory::holds(const void* p, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (!covers(p)) return false;
  const auto place = static_cast<std::size_t>(static_cast<const char*>(p) - base_);
  const auto behind = allocations_.upper_bound(place);
  if (behind == allocations_.begin()) return false;
  const auto& [begin, size] = *std::prev(behind);
  return place + bytes <= begin + size;
}

void DeviceMemory::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::size_t DeviceMemory::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

std::size_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::size_t DeviceMemory::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

}  // namespace starling::emulator
