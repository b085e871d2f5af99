#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace starling {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

// Splits "1.5ms" into 1.5 and "ms"; nullopt if the text does not start with a number.
std::optional<std::pair<double, std::string_view>> split_quantity(std::string_view text) {
  const auto end = text.find_first_not_of("0123456789.");
  const auto number = parse_number<double>(text.substr(0, end));
  if (!number) return std::nullopt;
  std::string_view suffix = end == std::string_view::npos ? std::string_view{} : text.substr(end);
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  return std::pair{*number, suffix};
}

constexpr std::array<Unit, 6> kTimes{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
constexpr std::array<Unit, 4> kRates{{{"bit/s", 1}, {"kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}}};

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed, decimals);
  return end.ec == std::errc{} ? std::string(text.begin(), end.ptr) : format_number(value);
}

struct Characters {
  char32_t first, last;
};
// Controls, U+2028 and U+2029, and the characters with Unicode's property Bidi_Control.
constexpr std::array<Characters, 6> kUnprintable{
    {{0, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}}};

// Whether the text is UTF-8 in which accepts(character) is true for each character.
template <class Accepts>
bool consists_of(std::string_view text, const Accepts& accepts) {
  for (std::size_t at = 0; at < text.size();) {
    const auto character = next_character(text, at);
    if (!character || !accepts(*character)) return false;
  }
  return true;
}

}  // namespace

std::optional<char32_t> next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) -> char32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const char32_t lead = byte(at++);
  if (lead < 0x80) return lead;
  if (lead < 0xc2 || lead > 0xf4) return std::nullopt;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  char32_t character = lead & (0x3fU >> more);
  for (int i = 0; i < more; ++i) {
    const char32_t next = byte(at++);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    character = character << 6 | (next & 0x3f);
  }
  constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};  // smaller ones have a shorter form
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[static_cast<std::size_t>(more)] || surrogate || character > 0x10ffff)
    return std::nullopt;
  return character;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_utf8(std::string_view text) {
  return consists_of(text, [](char32_t) { return true; });
}

bool is_printable(std::string_view text) {
  return consists_of(text, [](char32_t character) {
    return std::ranges::none_of(kUnprintable, [&](const Characters& range) {
      return character >= range.first && character <= range.last;
    });
  });
}

Result<Duration> parse_duration(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (quantity) {
    const auto [number, suffix] = *quantity;
    if (suffix.empty() && number == 0) return Duration{0};
    for (const auto& unit : kTimes) {
      if (suffix != unit.suffix) continue;
      const double ns = number * unit.factor;
      if (ns > 3.2e18) return Error{"'" + std::string(text) + "' is longer than 100 years"};
      return Duration{std::llround(ns)};
    }
  }
  return Error{"'" + std::string(text) +
               "' is not a time; expected a number and ns, us, ms, s, m or h, for example 20ms"};
}

std::string format_duration(Duration d) {
  const std::int64_t ns = d.count();
  if (ns == 0) return "0s";
  constexpr std::array<std::pair<std::int64_t, const char*>, 4> kForms{
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}}};
  for (const auto& [size, suffix] : kForms) {
    if (ns % size == 0) return std::to_string(ns / size) + suffix;
  }
  return std::to_string(ns) + "ns";
}

Result<double> parse_bandwidth(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (quantity && quantity->first > 0) {
    for (const auto& unit : kRates) {
      if (quantity->second == unit.suffix) return quantity->first * unit.factor;
    }
  }
  return Error{"'" + std::string(text) +
               "' is not a bandwidth; expected a number above 0 and bit/s, kbit/s, Mbit/s or Gbit/s, for "
               "example 1Gbit/s"};
}

std::string format_span(double seconds) {
  const auto [unit, name] = seconds < 100    ? std::pair(1.0, "s")
                            : seconds < 6000 ? std::pair(60.0, "min")
                                             : std::pair(3600.0, "h");
  return format_number(std::round(seconds / unit)) + " " + name;
}

std::string format_time_left(double seconds) { return "about " + format_span(seconds) + " left"; }

std::string format_percent(double fraction) { return fixed(100 * fraction, 2) + " %"; }

std::string format_factor(double factor) { return fixed(factor, factor < 9.95 ? 1 : 0) + "x"; }

std::string format_bandwidth(double bits_per_second) {
  const Unit* best = &kRates[0];
  for (const auto& unit : kRates) {
    if (bits_per_second >= unit.factor) best = &unit;
  }
  return format_number(bits_per_second / best->factor) + std::string(best->suffix);
}

std::string format_number(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : std::to_string(value);
}

}  // namespace starling
