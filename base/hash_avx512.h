// Private to base/hash.cc. Includes nothing; hash_avx512.cc gives the reason.
#pragma once

namespace starling {

// XXH3-64. REQUIRES: a processor with AVX-512F.
unsigned long long hash64_avx512(const void* bytes, unsigned long long size, unsigned long long seed);

}  // namespace starling
