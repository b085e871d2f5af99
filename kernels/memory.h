// The host's memory, or a device's. Only a device can use pointers into its memory; queues (queue.h) copy
// between the two.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

namespace starling::kernels {

// A device's memory, in bytes.
struct Room {
  std::size_t free = 0, total = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;

  virtual bool on_host() const = 0;
  // nullopt on the host.
  virtual std::optional<Room> room() const { return std::nullopt; }
  // Zeroed, aligned to at least 64 bytes. Throws OutOfDeviceMemory if a device has too little left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* p) noexcept = 0;
};

Memory& host_memory();

// While one exists, its thread's new buffers in the host's memory have a size but no memory: networks are
// made to ask for their sizes. To read or write such a buffer is a segmentation fault.
class OnlySizes {
 public:
  OnlySizes();
  ~OnlySizes();
  OnlySizes(const OnlySizes&) = delete;
  OnlySizes& operator=(const OnlySizes&) = delete;
};

// A device failed: it has too little memory, or it is gone. The owner of a replica on it catches this when it
// makes the replica and around its work, and reports the message.
class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& sentence) : std::runtime_error(sentence) {}
};

// The device has too little memory left.
class OutOfDeviceMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace starling::kernels
