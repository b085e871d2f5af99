// A file's content as a stream of bytes, decompressed if the file begins with gzip's magic bytes. A corrupt
// or truncated gzip stream is an Error, and so are bytes after its last member, so no content is silently
// lost.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

// The path of NAME or, if that does not exist, NAME.gz in `folder`, else of the same with a capital as first
// letter or in capitals, with or without the ending; nullopt if none exists.
std::optional<std::string> find_file(const std::string& folder, const std::string& name);

// The paths of all of these files. The Error names the first missing one and the whole list.
Result<std::vector<std::string>> find_files(const std::string& folder, std::span<const char* const> names);
// Whether the path has one of these endings, ignoring the case of ASCII letters, or one with ".gz" after it.
bool has_ending(std::string_view path, std::initializer_list<std::string_view> endings);
bool same_letters(std::string_view a, std::string_view b);  // ignoring the case of ASCII letters

bool has_one_of(const std::string& folder, std::span<const char* const> names);

class ByteSource {
 public:
  static Result<ByteSource> open(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;

  // Fills `out` and returns the number of bytes, which is smaller than out.size() only at the content's end.
  Result<std::size_t> read(std::span<std::uint8_t> out);

  bool gzipped() const;
  // An upper limit of the content's bytes: the file's size, times gzip's greatest ratio if it is gzipped.
  std::uint64_t most_bytes() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The next `wanted` bytes, or fewer at the content's end. Memory grows with the bytes that arrive.
Result<std::vector<std::uint8_t>> read_up_to(ByteSource& source, std::uint64_t wanted);

}  // namespace starling::datasets
