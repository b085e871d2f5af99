// Zeroed, 64-byte-aligned floats in the memory of the host.
#pragma once

#include <cstddef>
#include <memory>

namespace starling::kernels {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t floats);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(float); }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace starling::kernels
