// XXH3-64 (Collet), the only hash function of Starling: for checksums of frames, fingerprints and trace
// hashes. It detects accidental changes, not deliberate ones.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace starling {

std::uint64_t hash64(Bytes bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

}  // namespace starling
