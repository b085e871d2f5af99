// A buffer of uninitialized bytes that begins on a cache line. The widest loads and stores of a misaligned
// buffer would each touch two lines.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/bytes.h"

namespace starling {

inline constexpr std::align_val_t kCacheLine{64};

class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size)
      : bytes_(static_cast<std::byte*>(::operator new[](size, kCacheLine))), size_(size) {}

  MutableBytes bytes() { return {bytes_.get(), size_}; }
  Bytes bytes() const { return {bytes_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, kCacheLine); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace starling
