// Counts what this test program allocates through operator new, whichever library asks.
#pragma once

namespace starling {

long allocation_count();  // since the program's start, on all threads

}  // namespace starling
