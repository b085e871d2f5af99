// Catch2's main for every test program: version 2 wants it compiled here, version 3 brings its own.
#if __has_include(<catch2/catch_test_macros.hpp>)
namespace {
[[maybe_unused]] constexpr int kCatch2BringsItsOwnMain = 3;
}
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
