// XXH3-64 (Collet): the one hash of Starling. Frames carry it as their checksum, fingerprints and trace
// hashes are made of it. It guards against accidents, not against forgers.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace starling {

std::uint64_t hash64(Bytes bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

}  // namespace starling
