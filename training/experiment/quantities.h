// The quantities of an experiment as text, with their limits. The table of settings, the faults and the
// command line parse them alike. Every Error says what is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace starling::training {

// No time in an experiment is longer: up to here every nanosecond reads back exactly.
inline constexpr Duration kLongestTime = std::chrono::hours(1000);

// For messages: the first 80 bytes in quotes.
std::string in_quotes(std::string_view text);
// The parts between separators; one part if there are none.
std::vector<std::string_view> split(std::string_view text, char separator);

// A whole number in [low, high].
Result<std::uint64_t> parse_whole(std::string_view text, std::uint64_t low, std::uint64_t high);

// A number in [low, high]; each end is included or excluded.
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
