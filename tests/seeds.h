// The number of repetitions of a test. Sanitizers look for memory and threading errors, which a tenth of the
// repetitions finds as well, and run ten times slower: under them a test repeats a tenth as often.
//
// Tests with the tag [figures] only check numbers (mixing or learning speed) and run code that other tests
// cover; scripts/test skips them under sanitizers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace starling {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr std::uint64_t seeds(std::uint64_t all) {
  return kSanitized ? std::max<std::uint64_t>(1, all / 10) : all;
}

}  // namespace starling
