#include "base/large_pages.h"

#include <vector>

#include "tests/catch.h"

namespace starling {

TEST_CASE("clearing sets exactly the bytes of a range to zero") {
  constexpr std::size_t kSize = 64 << 10;
  for (const std::size_t begin : {0, 1, 4095, 4096, 10'000}) {
    for (const std::size_t size : {0, 1, 4095, 4096, 8192, 12'345, 40'000}) {
      CAPTURE(begin, size);
      std::vector<unsigned char> bytes(kSize, 7);
      clear_pages(bytes.data() + begin, size);
      for (std::size_t i = 0; i < kSize; ++i)
        if (bytes[i] != (i >= begin && i < begin + size ? 0 : 7)) FAIL("byte " << i);
    }
  }
}

}  // namespace starling
