// The memory of an emulated device. Threads of the host cannot touch it: it has a protection key of its own,
// which only the threads of the device's streams hold. What is allocated holds signaling NaNs, what lies
// between allocations must stay as it is, and the address sanitizer knows what is allocated.
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

  // Null where there is not so much left.
  void* allocate(std::size_t bytes);
  // False: nothing begins there. Ends the program where something was written beside it.
  bool release(void* p);

  // Whether all of it lies in one allocation.
  bool holds(const void* p, std::size_t bytes) const;
  // Whether it is one of this memory's addresses at all.
  bool covers(const void* p) const;

  void set_limit(std::size_t bytes);
  std::size_t limit() const;
  std::size_t used() const;  // rounded up as the device does
  std::size_t live() const;  // as it was asked for

  // The key that keeps the host out, or -1.
  int key() const { return key_; }

 private:
  std::size_t place_for(std::size_t size);

  mutable std::mutex mutex_;
  std::size_t limit_, used_ = 0, live_ = 0;
  char* base_ = nullptr;
  std::size_t extent_ = 0;
  int key_;
  std::map<std::size_t, std::size_t> allocations_;  // bytes asked for, by place
  std::map<std::size_t, std::size_t> gaps_;         // bytes, by place
};

// While one lives, the calling thread may touch a device's memory, or may not.
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
