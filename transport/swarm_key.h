// The secret that the peers of a closed swarm share, and the file that holds it: 32 random bytes in base64,
// readable only by its owner.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/result.h"

namespace starling::transport {

struct SwarmKey {
  static constexpr std::size_t kBytes = 32;
  std::array<std::byte, kBytes> bytes{};

  // Refuses, in one sentence with the path, what is unreadable, readable by others than its owner, or holds
  // anything but 32 bytes in base64. A sentence that somebody made up would be found out by guessing, so
  // there is no place for one.
  static Result<SwarmKey> read(const std::string& path);
  // A fresh one, of the kernel's randomness.
  static Result<SwarmKey> draw();
  // Into a new file of mode 0600; replaces none.
  Status write(const std::string& path) const;
};

}  // namespace starling::transport
