// Catch2's main for every test program: version 2 wants it compiled here, version 3 brings its own.
#if __has_include(<catch2/catch_test_macros.hpp>)
namespace {
[[maybe_unused]] constexpr int kCatch2BringsItsOwnMain = 3;
}
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

// What the thread sanitizer is not to tell of. The HTTP library is the distribution's, not built with it: that its static
// values are made behind a guard cannot be seen from here, and what it does with them looked like a race.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libcpp-httplib.so\n";
}
