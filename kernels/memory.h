// Where values lie: the host's memory, or a device's. A pointer into a device's memory means something to
// that device alone; only queues (queue.h) bring values from one to the other.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

namespace starling::kernels {

// Of a device, in bytes.
struct Room {
  std::size_t free = 0, total = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;

  virtual bool on_host() const = 0;
  // Nothing on the host, whose memory is not given out once and for all.
  virtual std::optional<Room> room() const { return std::nullopt; }
  // Zeroed, aligned to 64 bytes at least. Throws DeviceError where a device has not so much left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* p) noexcept = 0;
};

Memory& host_memory();

// A device does not do what it was asked to: it has too little memory left, or is gone. Whoever owns a replica
// on it catches this, at the replica's making and around its work, and says the sentence.
class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& sentence) : std::runtime_error(sentence) {}
};

// It has too little memory left.
class OutOfDeviceMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace starling::kernels
