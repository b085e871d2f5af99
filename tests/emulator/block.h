// Runs the threads of a kernel's blocks one after the other. Independent threads are plain calls. Threads
// launched together are fibers of one CPU thread, which meet at barriers and in shuffles; what would hang or
// be undefined on a device aborts with a message.
#pragma once

#include <vector_types.h>

#include <cstddef>

namespace starling::emulator {

// Whether a device accepts a launch of this extent.
bool fits(dim3 grid, dim3 block);

// Calls thread(context) once for every thread of every block, with blockIdx and threadIdx set.
void run_together(dim3 grid, dim3 block, void (*thread)(const void*), const void* context);

// __syncthreads().
void meet();
// Replaces *value by that of the lane whose number differs in `bits`.
void shuffle(void* value, std::size_t bytes, int bits);
// The values of all lanes of the warp; `to` has room for kLanes of them.
void gather(const void* value, std::size_t bytes, void* to);
// The calling thread's number in its warp.
unsigned lane();

inline constexpr unsigned kLanes = 32;
inline constexpr std::size_t kShuffleBytes = 32;  // the largest value

}  // namespace starling::emulator
