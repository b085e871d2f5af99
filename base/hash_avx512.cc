// XXH3 from its header, compiled for processors with AVX-512 (CMakeLists.txt): 40 GB/s where the library's own choice
// reaches 30. Nothing else is included: an inline function of another header, compiled here, could be the one that the
// linker keeps for all processors.
#include "base/hash_avx512.h"

#ifdef __AVX512F__
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace starling {

unsigned long long hash64_avx512(const void* bytes, unsigned long long size, unsigned long long seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace starling
#endif
