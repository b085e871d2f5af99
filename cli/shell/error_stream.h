// Standard error, where writing never waits for its reader and never ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace starling::cli {

// Replaces the C library's `stderr`, and ignores SIGPIPE and SIGXFSZ: a write that fails is an error. What a
// reader does not take (a terminal after Ctrl-S, a full pipe) waits in memory, up to 256 KiB; more is
// dropped, and once the reader reads again, the line lost(number of lines) says so. Without a reader nothing
// waits. At the end of the process, what waits has 300 ms. To be called once, before other threads start.
void begin_error_stream(std::string (*lost)(std::uint64_t lines));

}  // namespace starling::cli
