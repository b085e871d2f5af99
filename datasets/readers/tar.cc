#include "datasets/readers/tar.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "datasets/readers/byte_source.h"

namespace starling::datasets {
namespace {

// A header is one block of these fields, among others:
//   0 name, 100 bytes; 124 size, 12 octal digits; 148 checksum, 8 octal digits; 156 kind; 257 "ustar";
//   345 the folder before the name, 155 bytes
constexpr std::size_t kBlock = 512;
using Block = std::array<std::uint8_t, kBlock>;

std::string text_at(const Block& block, std::size_t at, std::size_t length) {
  const char* begin = reinterpret_cast<const char*>(block.data()) + at;
  return {begin, std::find(begin, begin + length, '\0')};
}

std::optional<std::uint64_t> octal_at(const Block& block, std::size_t at, std::size_t length) {
  std::uint64_t value = 0;
  bool digits = false;
  for (std::size_t i = at; i < at + length; ++i) {
    const std::uint8_t c = block[i];
    if (c >= '0' && c <= '7') {
      value = value * 8 + (c - '0');
      digits = true;
    } else if ((c != ' ' && c != 0) || (c == 0 && !digits)) {
      return std::nullopt;
    } else if (digits) {
      break;
    }
  }
  return digits ? std::optional(value) : std::nullopt;
}

// The checksum is the sum of all bytes, with blanks in its own place.
bool sum_is_right(const Block& block) {
  std::uint64_t sum = 8 * std::uint64_t{' '};
  for (std::size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? 0 : block[i];
  return octal_at(block, 148, 8) == sum;
}

}  // namespace

Status unpack_tar(const std::string& path,
                  const std::function<bool(const std::string& name, std::uint64_t size)>& wanted,
                  const std::function<Status(std::span<const std::uint8_t> bytes)>& take) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const Error broken{"'" + path + "' is not a tar archive, or it is truncated"};
  std::vector<std::uint8_t> buffer(64 * kBlock);
  for (;;) {
    Block header;
    const auto got = source->read(header);
    if (!got) return got.error();
    if (*got == 0 || std::all_of(header.begin(), header.end(), [](std::uint8_t b) { return b == 0; }))
      return Done{};
    const auto size = octal_at(header, 124, 12);
    if (*got != kBlock || !size || !sum_is_right(header)) return broken;
    const std::string before = text_at(header, 257, 5) == "ustar" ? text_at(header, 345, 155) : "";
    const std::string name = (before.empty() ? "" : before + "/") + text_at(header, 0, 100);
    const bool plain = header[156] == '0' || header[156] == 0;
    const bool unpacked = plain && wanted(name, *size);
    // The content fills its last block.
    for (std::uint64_t left = *size; left > 0;) {
      const std::uint64_t padded = (left + kBlock - 1) / kBlock * kBlock;
      const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(padded, buffer.size()));
      const auto read = source->read(std::span(buffer.data(), part));
      if (!read) return read.error();
      if (*read != part) return broken;
      const std::size_t content = static_cast<std::size_t>(std::min<std::uint64_t>(left, part));
      if (unpacked)
        if (Status taken = take(std::span(buffer.data(), content)); !taken) return taken;
      left -= content;
    }
    if (unpacked)
      if (Status taken = take({}); !taken) return taken;
  }
}

}  // namespace starling::datasets
