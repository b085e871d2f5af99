// How often a test repeats itself. Sanitizers look for faults of memory and of threads, which a tenth of the
// repetitions shows as well as all, and take ten times as long for each: under them a test takes a tenth.
//
// What is a statement about figures alone (how fast something mixes, how well something learns), and goes no
// way through the code that another test does not go, has the tag [figures]: scripts/test leaves it out under
// sanitizers.
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
