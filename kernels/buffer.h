// Zeroed floats, 64-byte aligned, in the memory of the host or of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "kernels/memory.h"

namespace starling::kernels {

class Buffer {
 public:
  Buffer() = default;
  // `memory` outlives the buffer.
  explicit Buffer(std::size_t floats, Memory& memory = host_memory())
      : data_(static_cast<float*>(memory.allocate(floats * sizeof(float))), Free(&memory)), size_(floats) {}

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::span<float> values() { return {data(), size_}; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(float); }

 private:
  class Free {
   public:
    Free() : memory_(nullptr) {}
    explicit Free(Memory* memory) : memory_(memory) {}
    void operator()(float* p) const { memory_->release(p); }

   private:
    Memory* memory_;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

// One T in a back end's memory, such as a loss that a device writes and the host reads. Zero bytes at first.
template <class T>
class Staged {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(float) == 0);

 public:
  Staged() = default;
  explicit Staged(Memory& memory) : buffer_(sizeof(T) / sizeof(float), memory) {}  // `memory` outlives it

  T* get() { return reinterpret_cast<T*>(buffer_.data()); }
  T* operator->() { return get(); }

 private:
  Buffer buffer_;
};

}  // namespace starling::kernels
