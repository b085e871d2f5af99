// Zeroed floats, 64-byte-aligned, in the memory of the host or of a device.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/memory.h"

namespace starling::kernels {

class Buffer {
 public:
  Buffer() = default;
  // `memory` outlives the buffer.
  explicit Buffer(std::size_t floats, Memory& memory = host_memory());

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
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

}  // namespace starling::kernels
