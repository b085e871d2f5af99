// One value in a back end's memory, such as a loss that a device writes and the host reads.
#pragma once

#include <type_traits>

#include "kernels/buffer.h"

namespace starling::kernels {

// A T whose bytes are zero at first.
template <class T>
class Staged {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(float) == 0);

 public:
  Staged() = default;
  explicit Staged(Memory& memory) : buffer_(sizeof(T) / sizeof(float), memory) {}  // which outlives it

  T* get() { return reinterpret_cast<T*>(buffer_.data()); }
  T* operator->() { return get(); }

 private:
  Buffer buffer_;
};

}  // namespace starling::kernels
