// The main function of every test program: Catch2 version 2 compiles it here, version 3 has its own.
#if __has_include(<catch2/catch_test_macros.hpp>)
namespace {
[[maybe_unused]] constexpr int kCatch2BringsItsOwnMain = 3;
}
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

// Thread sanitizer suppressions. The distribution's HTTP library and Gloo are not instrumented, so the
// sanitizer does not see the guards of static variables, or the counters of shared pointers, and reports
// false races.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libcpp-httplib.so\nrace:gloo::transport::\n";
}
