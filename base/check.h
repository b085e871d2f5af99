// Assertions for programmer errors. They are always on; no input from outside may trigger one.
#pragma once

namespace starling {

// Prints the failed condition and its source line to standard error and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace starling

#define STARLING_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::starling::check_failed(#condition, __FILE__, __LINE__))
