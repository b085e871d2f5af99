// Parsers and formats of numbers and quantities, where the whole text must be the value, without blanks
// around it; and checks of the characters of a text.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace starling {

// nullopt if `text` is not a number of type T, or is not finite.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// "20ms", "1.5s", "100us", "3m", "2h", "250ns"; also "0". Never negative, at most 100 years.
Result<Duration> parse_duration(std::string_view text);
// In the largest unit up to s that gives a whole number: 20ms, 1500us, 90s.
std::string format_duration(Duration d);

// Figures for people, in one form each. A time: "40 s", "3 min", "5 h". An estimate: "about 40 s left". A
// fraction in percent: "97.20 %". A ratio: "5.5x", "12x".
std::string format_span(double seconds);
std::string format_time_left(double seconds);
std::string format_percent(double fraction);
std::string format_factor(double factor);

// "1Gbit/s", "10Mbit/s", "56kbit/s", "100bit/s": bits per second, decimal prefixes.
Result<double> parse_bandwidth(std::string_view text);
std::string format_bandwidth(double bits_per_second);

// The shortest decimal text that parses to the same value.
std::string format_number(double value);

// The character of UTF-8 (RFC 3629) at text[at], and moves `at` behind it; nullopt, with an `at` of no
// meaning, if the bytes there are not UTF-8. REQUIRES: at < text.size().
std::optional<char32_t> next_character(std::string_view text, std::size_t& at);
// Whether the text is UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);
// Whether the text is UTF-8 without characters that change more than the place where they are shown: controls
// (C0, DEL and C1), separators of lines and paragraphs, and controls of the direction of writing.
bool is_printable(std::string_view text);

// The parts between separators, which may be empty; one part if there is no separator. They refer to `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// "a, b or c", for messages that list the accepted values.
template <class Range>
std::string one_of(const Range& names) {
  std::string text;
  std::size_t i = 0;
  const std::size_t n = std::size(names);
  for (const auto& name : names) {
    if (i > 0) text += i + 1 == n ? " or " : ", ";
    text += name;
    ++i;
  }
  return text;
}

}  // namespace starling
