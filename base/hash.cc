#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_avx512.h"

#ifdef STARLING_XXHASH_DISPATCHES
extern "C" XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void* bytes, std::size_t size, XXH64_hash_t seed);
#endif

namespace starling {
namespace {

// From this size on, the code for the widest vectors of the processor is called: it is up to four times
// faster than the inlined baseline. For shorter inputs the call costs more than it saves.
constexpr std::size_t kLong = 1024;

std::uint64_t hash_long(Bytes bytes, std::uint64_t seed) {
#ifdef STARLING_HASH_AVX512
  static const bool wide = __builtin_cpu_supports("avx512f") != 0;
  if (wide) return hash64_avx512(bytes.data(), bytes.size(), seed);
#endif
#ifdef STARLING_XXHASH_DISPATCHES
  return XXH3_64bits_withSeed_dispatch(bytes.data(), bytes.size(), seed);
#else
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
#endif
}

}  // namespace

std::uint64_t hash64(Bytes bytes, std::uint64_t seed) {
  return bytes.size() >= kLong ? hash_long(bytes, seed)
                               : XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace starling
