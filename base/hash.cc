#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace starling {

std::uint64_t hash64(Bytes bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace starling
