// Pinned host memory, which the device copies from and to directly. It is ordinary memory with registered
// addresses.
#pragma once

#include <cstddef>

namespace starling::emulator {

// Null if out of memory.
void* allocate_pinned(std::size_t bytes);
// False if no allocation starts there.
bool release_pinned(void* p);
bool is_pinned(const void* p, std::size_t bytes);
std::size_t pinned_bytes();

}  // namespace starling::emulator
