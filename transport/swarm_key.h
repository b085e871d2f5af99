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

  // An Error, one sentence with the path, if the file cannot be read, is readable by others than its owner,
  // or is not 32 bytes in base64. A passphrase could be guessed, so none is accepted.
  static Result<SwarmKey> read(const std::string& path);
  // A new key from the kernel's random bytes.
  static Result<SwarmKey> draw();
  // Writes a new file of mode 0600; an Error if it exists.
  Status write(const std::string& path) const;
};

}  // namespace starling::transport
