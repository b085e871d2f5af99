#include "training/runs/experiment/settings/quantities.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "training/runs/experiment/settings/units.h"

namespace starling::training {
namespace {

// Each unit that sizes are written in, the largest first.
constexpr std::array<std::string_view, 3> kUnitsWritten = {"GiB", "MiB", "KiB"};

Result<Duration> within_limit(Duration d, std::string_view text) {
  if (d <= kLongestTime) return d;
  return Error{in_quotes(text) + " is too long; at most " + format_duration(kLongestTime) + " is accepted"};
}

}  // namespace

std::string in_quotes(std::string_view text) { return "'" + std::string(text.substr(0, 80)) + "'"; }

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : std::string(separator)) + part;
  return text;
}

std::string and_list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

Result<std::uint64_t> parse_whole(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto value = parse_number<std::uint64_t>(text);
  if (value && *value >= low && *value <= high) return *value;
  return Error{in_quotes(text) + " is not a whole number from " + std::to_string(low) + " to " +
               std::to_string(high)};
}

Result<double> parse_real(std::string_view text, Interval interval) {
  const auto value = parse_number<double>(text);
  if (value && (interval.low_open ? *value > interval.low : *value >= interval.low) &&
      (interval.high_open ? *value < interval.high : *value <= interval.high)) {
    return *value;
  }
  return Error{in_quotes(text) + " is not a number from " + (interval.low_open ? "above " : "") +
               format_number(interval.low) + " to " + (interval.high_open ? "below " : "") +
               format_number(interval.high)};
}

Result<Duration> parse_time(std::string_view text) {
  const auto d = parse_duration(text);
  if (!d) return d;
  return within_limit(*d, text);
}

Result<Duration> parse_seconds(std::string_view text) {
  const auto seconds = parse_number<double>(text);
  if (!seconds) return parse_time(text);
  if (*seconds < 0) return Error{in_quotes(text) + " is negative; expected seconds, or a time such as 20ms"};
  if (*seconds > to_seconds(kLongestTime)) return within_limit(Duration::max(), text);
  return from_seconds(*seconds);
}

Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::string_view digits = text;
  std::uint64_t factor = 1;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != Dimension::bytes || unit.size <= 1 || !digits.ends_with(unit.name)) continue;
    digits.remove_suffix(unit.name.size());
    factor = static_cast<std::uint64_t>(unit.size);
    break;
  }
  const auto count = parse_number<std::uint64_t>(digits);
  if (count && *count <= high / factor && *count * factor >= low) return *count * factor;
  return Error{in_quotes(text) + " is not a size from " + format_size(low) + " to " + format_size(high) +
               (count ? "" : " in bytes, KiB, MiB, GiB, kB, MB or GB")};
}

std::string format_size(std::uint64_t bytes) {
  for (const std::string_view name : kUnitsWritten) {
    const auto size = static_cast<std::uint64_t>(find_unit(name)->size);
    if (bytes != 0 && bytes % size == 0) return std::to_string(bytes / size) + std::string(name);
  }
  return std::to_string(bytes);
}

Result<double> parse_rate(std::string_view text) {
  const auto rate = parse_bandwidth(text);
  if (!rate || (*rate >= 1 && *rate <= 1e15)) return rate;
  return Error{in_quotes(text) + " is not a bandwidth from 1bit/s to 1000000Gbit/s"};
}

std::string format_rate(double bits_per_second) {
  std::string text = format_bandwidth(bits_per_second);
  const auto back = parse_bandwidth(text);
  if (back && *back == bits_per_second) return text;
  // A prefix would round, or needs an exponent: all digits then.
  std::array<char, 64> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), bits_per_second, std::chars_format::fixed);
  if (error != std::errc{}) return text;
  return std::string(buffer.data(), end) + "bit/s";
}

Result<PeerSet> PeerSet::parse(std::string_view text) {
  if (text == "all") return all();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = parse_whole(part.substr(0, dash), 0, kMost);
    if (!first) return Error{first.error().message + ", several (0-3,8), or all"};
    auto last = first;
    if (dash < part.size()) last = parse_whole(part.substr(dash + 1), 0, kMost);
    if (!last) return Error{last.error().message + ", several (0-3,8), or all"};
    if (*last < *first) return Error{in_quotes(part) + " runs backwards; write the smaller number first"};
    ranges.emplace_back(static_cast<std::uint32_t>(*first), static_cast<std::uint32_t>(*last));
  }
  std::sort(ranges.begin(), ranges.end());
  PeerSet set;
  for (const auto& [first, last] : ranges) {
    if (set.ranges_.empty() || first > set.ranges_.back().second + 1) {
      set.ranges_.emplace_back(first, last);
    } else {
      set.ranges_.back().second = std::max(set.ranges_.back().second, last);
    }
  }
  return set;
}

std::string PeerSet::text() const {
  if (is_all()) return "all";
  std::string text;
  for (const auto& [first, last] : ranges_) {
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

bool PeerSet::contains(std::uint32_t peer) const {
  return is_all() || std::any_of(ranges_.begin(), ranges_.end(), [peer](const auto& range) {
           return range.first <= peer && peer <= range.second;
         });
}

bool PeerSet::covers(std::uint32_t peers) const {
  return is_all() || (ranges_.front().first == 0 && ranges_.front().second + 1 >= peers);
}

std::vector<std::uint32_t> PeerSet::among(std::uint32_t peers) const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t peer = 0; peer < peers; ++peer)
    if (contains(peer)) numbers.push_back(peer);
  return numbers;
}

}  // namespace starling::training
