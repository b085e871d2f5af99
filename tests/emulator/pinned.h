// Memory of the host that the device copies from and to by itself. It is ordinary memory whose places are
// known.
#pragma once

#include <cstddef>

namespace starling::emulator {

// Null where there is no more.
void* allocate_pinned(std::size_t bytes);
// False: nothing begins there.
bool release_pinned(void* p);
bool is_pinned(const void* p, std::size_t bytes);
std::size_t pinned_bytes();

}  // namespace starling::emulator
