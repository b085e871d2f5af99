// Includes Catch2, version 2 or 3. Assertions without their own handlers of exceptions compile faster.
#pragma once

#define CATCH_CONFIG_FAST_COMPILE

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using Catch::Approx;  // version 2 declares it in the main header
#else
#include <catch2/catch.hpp>
#endif
