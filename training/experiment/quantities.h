// The quantities of an experiment in text, with their limits: what the settings' table, the faults and the
// command line parse alike. Every Error says what is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace starling::training {

// A whole number in [low, high].
Result<std::uint64_t> parse_whole(std::string_view text, std::uint64_t low, std::uint64_t high);

// A number in [low, high], its ends included or not: "a number from 0 to below 1".
struct Interval {
  double low, high;
  bool low_open = false, high_open = false;
};
Result<double> parse_real(std::string_view text, Interval interval);

// "20ms", at most kLongestTime.
Result<Duration> parse_time(std::string_view text);
// The same, or a bare number of seconds: "10", "0.5".
Result<Duration> parse_seconds(std::string_view text);

// Bytes, "64KiB", "1MiB" or a bare number, in [low, high]; and the inverse, exact.
Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t low, std::uint64_t high);
std::string format_size(std::uint64_t bytes);

// Bits per second from 1 to 1e15, and the inverse, exact.
Result<double> parse_rate(std::string_view text);
std::string format_rate(double bits_per_second);

}  // namespace starling::training
