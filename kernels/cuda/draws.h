// The random draws of an operation that drops values. Their number is on the device and incremented there, so
// that every replay of a recorded step draws new values. reference::DropoutDraw decides which values are
// kept; the backward pass needs only the draw's key.
#pragma once

#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {

struct Drawn {
  std::uint64_t count, bits;  // draws so far, and the last one's key
};

class Draws {
 public:
  // `used`: false if nothing is dropped; then last() is null and the other calls do nothing.
  Draws(Stream& stream, std::uint64_t seed, bool used);

  void next();
  void set(std::uint64_t count);
  const Drawn* last() const;  // in the device's memory
  std::size_t bytes() const { return drawn_.bytes(); }

 private:
  Stream& stream_;
  std::uint64_t seed_;
  DeviceMemory memory_;
  Buffer drawn_;
};

}  // namespace starling::kernels::cuda
