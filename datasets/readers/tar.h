// Unpacks files from a tar archive (POSIX ustar), gzipped or not, in one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::datasets {

// For each plain file in the archive, in order: if wanted(name, size) is true, `take` receives the content in
// pieces, followed by an empty one. An Error of `take` or in the archive ends the pass.
Status unpack_tar(const std::string& path,
                  const std::function<bool(const std::string& name, std::uint64_t size)>& wanted,
                  const std::function<Status(std::span<const std::uint8_t> bytes)>& take);

}  // namespace starling::datasets
