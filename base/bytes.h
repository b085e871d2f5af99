// Spans of raw bytes, and little-endian values of fixed size in them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace starling {

static_assert(std::endian::native == std::endian::little,
              "Starling's formats are little-endian, so its hosts must be");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// REQUIRES: at least sizeof(T) bytes at `from` (or `to`).
template <class T>
T load(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace starling
