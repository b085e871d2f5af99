// Large pages of memory: fewer TLB entries cover it, whose misses are expensive on virtual machines.
#pragma once

#include <cstddef>

namespace starling {

inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

// Requests them for the whole large pages within a range, if the system has any. Each of those takes memory
// as a whole once a byte of it is written.
void request_large_pages(void* begin, std::size_t bytes);

// Sets a range of the heap to zero. Whole pages take memory only once they are written.
void clear_pages(void* begin, std::size_t bytes);

}  // namespace starling
