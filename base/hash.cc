#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#ifdef STARLING_XXHASH_DISPATCHES
extern "C" XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void* bytes, std::size_t size, XXH64_hash_t seed);
#endif

namespace starling {

std::uint64_t hash64(Bytes bytes, std::uint64_t seed) {
#ifdef STARLING_XXHASH_DISPATCHES
  // The library picks the widest vectors that the processor has, 2.5 times as fast on a chunk as what is inlined
  // here for any x86-64; for a few bytes the call costs more than it gains.
  constexpr std::size_t kLong = 1024;
  if (bytes.size() >= kLong) return XXH3_64bits_withSeed_dispatch(bytes.data(), bytes.size(), seed);
#endif
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace starling
