// Catch2, whichever major version the distribution has.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using Catch::Approx;  // version 2 brings it along
#else
#include <catch2/catch.hpp>
#endif
