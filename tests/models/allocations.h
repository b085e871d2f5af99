// Counts the memory that this test program, including its libraries, has allocated through operator new and
// not freed.
#pragma once

namespace starling {

long allocation_count();  // since the program's start, in all threads

// Memory in use, of all threads.
struct Live {
  long blocks = 0, bytes = 0;
};
Live live_allocations();

}  // namespace starling
