// A file's content as a stream of bytes, gunzipped where its first two bytes are gzip's. A corrupt or cut-off
// gzip stream is an Error, as is anything behind its end: some of the content would otherwise silently be
// missing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

// The path of NAME or NAME.gz in `folder`, whichever exists, the plain one first.
std::optional<std::string> find_file(const std::string& folder, const std::string& name);

class ByteSource {
 public:
  static Result<ByteSource> open(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;

  // Fills `out` from the front as far as the content goes; fewer bytes than asked for mean its end.
  Result<std::size_t> read(std::span<std::uint8_t> out);

  bool gzipped() const;
  // No more content than this can come: the file's size, times gzip's greatest ratio where it is gzipped.
  std::uint64_t most_bytes() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The next bytes, `wanted` of them or as many as there still are, in memory that grows with what really
// arrives.
Result<std::vector<std::uint8_t>> read_up_to(ByteSource& source, std::uint64_t wanted);

}  // namespace starling::datasets
