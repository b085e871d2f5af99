// A fuzzer's input, read from its beginning. After its end every value is zero.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace starling::fuzz {

class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(take<std::uint8_t>()); }
  bool flag() { return (byte() & 1) != 0; }
  std::uint64_t below(std::uint64_t limit) {
    return (limit <= 256 ? byte() : limit <= 65536 ? take<std::uint16_t>() : take<std::uint64_t>()) % limit;
  }
  // Mostly small; sometimes of any size, or close to the greatest.
  std::uint64_t number() {
    const std::uint8_t kind = byte();
    if (kind < 160) return kind;
    if (kind < 208) return take<std::uint16_t>();
    if (kind < 224) return take<std::uint32_t>();
    if (kind < 240) return UINT64_MAX - (kind - 224U);
    return take<std::uint64_t>();
  }
  template <class T, std::size_t kSize>
  const T& one_of(const std::array<T, kSize>& values) {
    return values[below(kSize)];
  }
  Bytes bytes(std::size_t size) {
    const Bytes taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  template <class T>
  std::uint64_t take() {
    std::array<std::byte, sizeof(T)> copy{};
    const Bytes taken = bytes(sizeof(T));
    std::copy(taken.begin(), taken.end(), copy.begin());
    return load<T>(copy.data());
  }

  Bytes rest_;
};

}  // namespace starling::fuzz
