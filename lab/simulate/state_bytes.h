// Serializes values as consecutive bytes, for states that only the same program reads again. The reader
// checks every length, so it detects truncated and foreign data.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace starling::lab {

class StateWriter {
 public:
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  void values(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    value(static_cast<std::uint64_t>(values.size()));
    append(std::as_bytes(values));
  }
  template <class T>
  void values(const std::vector<T>& all) {
    values(std::span<const T>(all));
  }
  Bytes bytes() const { return bytes_; }

 private:
  void append(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

// A value beyond the end reads as zero, and fits() is false from then on.
class StateReader {
 public:
  explicit StateReader(Bytes bytes) : bytes_(bytes) {}

  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    copy(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  std::vector<T> values() {
    const auto count = value<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) {
      fits_ = false;
      return {};
    }
    std::vector<T> values(count);
    copy(std::as_writable_bytes(std::span(values)));
    return values;
  }
  // REQUIRES: as many bytes as were written; else fits() is false.
  void into(MutableBytes out) {
    if (value<std::uint64_t>() != out.size()) {
      fits_ = false;
      return;
    }
    copy(out);
  }
  // Whether everything was read and nothing was missing.
  bool done() const { return fits_ && bytes_.empty(); }
  bool fits() const { return fits_; }

 private:
  void copy(MutableBytes out) {
    if (out.size() > bytes_.size()) {
      fits_ = false;
      return;
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data(), out.size());
    bytes_ = bytes_.subspan(out.size());
  }

  Bytes bytes_;
  bool fits_ = true;
};

}  // namespace starling::lab
