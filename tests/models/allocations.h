// Counts what this test program allocates through operator new and has not given back, whichever library
// asks.
#pragma once

namespace starling {

long allocation_count();  // since the program's start, on all threads

// What lives now, of all threads.
struct Live {
  long blocks = 0, bytes = 0;
};
Live live_allocations();

}  // namespace starling
