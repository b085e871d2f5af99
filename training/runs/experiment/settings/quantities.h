// The quantities of an experiment as text, with their limits. The table of settings, the faults and the
// command line parse them alike. Every Error says what is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace starling::training {

// No time in an experiment is longer: up to here every nanosecond reads back exactly.
inline constexpr Duration kLongestTime = std::chrono::hours(1000);

// For messages: the first 80 bytes in quotes.
std::string in_quotes(std::string_view text);
// The inverse of split().
std::string joined(const std::vector<std::string>& parts, std::string_view separator);
// "latency, bandwidth and drop"
std::string and_list(const std::vector<std::string>& names);

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

// Bytes, "64KiB", "1MiB", "2GiB" or a bare number, in [low, high]; and the inverse, exact.
Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t low, std::uint64_t high);
std::string format_size(std::uint64_t bytes);

// Bits per second from 1 to 1e15, and the inverse, exact.
Result<double> parse_rate(std::string_view text);
std::string format_rate(double bits_per_second);

// Sets `target` to a parsed value; or the Error of the parser.
template <class Parsed, class Target>
Status take(const Parsed& parsed, Target& target) {
  if (!parsed) return parsed.error();
  target = *parsed;
  return Done{};
}

// Some of a run's peers, by their numbers: "3", "0-3", "0-3,8", or "all".
class PeerSet {
 public:
  static constexpr std::uint32_t kAll = UINT32_MAX;  // stands for all peers where a number is wanted
  static constexpr std::uint32_t kMost = 99'999;     // no peer has a larger number

  PeerSet(std::uint32_t one) : ranges_{{one, one}} {}  // NOLINT: a number is one
  static PeerSet all() { return kAll; }

  static Result<PeerSet> parse(std::string_view text);
  std::string text() const;  // its inverse

  bool is_all() const { return ranges_.front().first == kAll; }
  bool is_one() const {
    return !is_all() && ranges_.size() == 1 && ranges_.front().first == ranges_.front().second;
  }
  bool contains(std::uint32_t peer) const;
  // Whether these are all of `peers` peers; and the largest number among them, 0 for "all".
  bool covers(std::uint32_t peers) const;
  std::uint32_t largest() const { return is_all() ? 0 : ranges_.back().second; }
  // Those among `peers` peers, in the order of their numbers.
  std::vector<std::uint32_t> among(std::uint32_t peers) const;

  friend bool operator==(const PeerSet&, const PeerSet&) = default;

 private:
  PeerSet() = default;

  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      ranges_;  // first and last of each; apart, in their order
};

}  // namespace starling::training
