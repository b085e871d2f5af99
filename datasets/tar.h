// Files out of a tar archive (POSIX ustar), gzipped or not, as it is read once from front to end.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::datasets {

// For each plain file in the archive, in its order, `wanted` says with its name and size whether it is to be
// unpacked; if so, `take` gets its content in pieces, the last of which is empty. An Error of theirs, or of
// the archive, ends it.
struct Unpacking {
  std::function<bool(const std::string& name, std::uint64_t size)> wanted;
  std::function<Status(std::span<const std::uint8_t> bytes)> take;
};
Status unpack_tar(const std::string& path, const Unpacking& unpacking);

}  // namespace starling::datasets
