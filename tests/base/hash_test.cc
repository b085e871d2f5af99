// Compares the hash with the library's incremental interface, which uses different code paths, at all lengths
// around which these paths switch.
#include "base/hash.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <xxhash.h>

#include "base/random.h"
#include "tests/catch.h"

namespace starling {
namespace {

std::uint64_t piece_by_piece(const std::vector<std::byte>& bytes, std::size_t begin, std::size_t size,
                             std::uint64_t seed) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_64bits_reset_withSeed(state, seed);
  for (std::size_t done = 0; done < size;) {
    const std::size_t piece = std::min<std::size_t>(size - done, 1 + done % 777);
    XXH3_64bits_update(state, bytes.data() + begin + done, piece);
    done += piece;
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

}  // namespace

TEST_CASE("hashes equal those of XXH3 for any length, seed and alignment") {
  CHECK(hash64(std::string_view()) == 0x2d06800538d394c2);  // published test vector
  Random random(1);
  std::vector<std::byte> bytes(300'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (std::size_t size = 0; size < 3000; size = size < 300 ? size + 1 : size + 61) {
      REQUIRE(hash64(Bytes(bytes).subspan(size % 64, size), seed) ==
              piece_by_piece(bytes, size % 64, size, seed));
    }
    for (const std::size_t size : {1023UL, 1024UL, 1025UL, 4096UL, 65'483UL, 261'120UL}) {
      REQUIRE(hash64(Bytes(bytes).subspan(3, size), seed) == piece_by_piece(bytes, 3, size, seed));
    }
  }
}

}  // namespace starling
