// The memory of an emulated device. Host threads cannot access it: it has its own protection key, which only
// the threads of the device's streams hold. New allocations contain signaling NaNs, the bytes between
// allocations are checked for changes, and the allocations are registered with the address sanitizer.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace starling::emulator {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t limit);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Null if not enough memory is left.
  void* allocate(std::size_t bytes);
  // False if no allocation starts there. Aborts if something was written next to it.
  bool release(void* p);

  // Whether the whole range is in one allocation.
  bool holds(const void* p, std::size_t bytes) const;
  // Whether the address belongs to this memory.
  bool covers(const void* p) const;

  void set_limit(std::size_t bytes);
  std::size_t limit() const;
  std::size_t used() const;  // rounded up as the device does
  std::size_t live() const;  // as requested

  // The key that keeps the host out, or -1.
  int key() const { return key_; }

 private:
  std::size_t place_for(std::size_t size);

  mutable std::mutex mutex_;
  std::size_t limit_, used_ = 0, live_ = 0;
  char* base_ = nullptr;
  std::size_t extent_ = 0;
  int key_;
  std::map<std::size_t, std::size_t> allocations_;  // requested bytes by offset
  std::map<std::size_t, std::size_t> gaps_;         // bytes by offset
};

// Grants or denies the calling thread access to device memory while it exists.
class Access {
 public:
  explicit Access(int key, bool allowed = true);
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  int key_, before_ = 0;
};

}  // namespace starling::emulator
