#include "lab/report/flat_line.h"

#include <algorithm>
#include <charconv>

#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A text without escapes and control characters; `rest` begins after its first quote.
std::optional<std::string_view> take_text(std::string_view& rest) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    if (byte == '"') {
      const std::string_view text = rest.substr(0, i);
      rest.remove_prefix(i + 1);
      return text;
    }
    if (byte == '\\' || byte < 0x20 || byte >= 0x80) return std::nullopt;
  }
  return std::nullopt;
}

// As JSON has numbers: no leading zeros, and digits on both sides of a point.
std::optional<double> take_number(std::string_view& rest) {
  const std::size_t sign = rest.starts_with('-') ? 1 : 0;
  if (rest.size() <= sign || !is_digit(rest[sign])) return std::nullopt;
  if (rest[sign] == '0' && rest.size() > sign + 1 && is_digit(rest[sign + 1])) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{} || !is_digit(end[-1])) return std::nullopt;
  const std::string_view digits(rest.data(), static_cast<std::size_t>(end - rest.data()));
  const std::size_t point = digits.find('.');
  if (point != std::string_view::npos && !is_digit(digits[point + 1])) return std::nullopt;
  rest.remove_prefix(digits.size());
  return number;
}

}  // namespace

bool FlatLine::read(std::string_view line) { return scan(line) || parse(line); }

bool FlatLine::scan(std::string_view line) {
  entries_.clear();
  if (!line.starts_with("{\"")) return false;
  line.remove_prefix(2);
  for (;;) {
    Entry entry;
    const auto key = take_text(line);
    if (!key || !line.starts_with(':') || find(*key) != nullptr) return false;
    entry.key = *key;
    line.remove_prefix(1);
    if (!scan_value(line, entry)) return false;
    entries_.push_back(entry);
    if (line == "}") return true;
    if (!line.starts_with(",\"")) return false;
    line.remove_prefix(2);
  }
}

bool FlatLine::scan_value(std::string_view& rest, Entry& entry) {
  for (const std::string_view word : {"null", "true", "false"}) {
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(word.size());
    return true;
  }
  if (rest.starts_with('"')) {
    rest.remove_prefix(1);
    entry.text = take_text(rest);
    return entry.text.has_value();
  }
  entry.number = take_number(rest);
  return entry.number.has_value();
}

bool FlatLine::parse(std::string_view line) {
  entries_.clear();
  kept_.clear();
  const training::Json json = training::parse_json(line);
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    Entry entry;
    entry.key = kept_.emplace_back(key);
    if (value.is_number()) entry.number = value.get<double>();
    if (value.is_string()) entry.text = kept_.emplace_back(value.get<std::string>());
    entries_.push_back(entry);
  }
  return true;
}

const FlatLine::Entry* FlatLine::find(std::string_view key) const {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  return found == entries_.end() ? nullptr : &*found;
}

std::optional<double> FlatLine::figure(std::string_view key) const {
  const Entry* const entry = find(key);
  return entry == nullptr ? std::nullopt : entry->number;
}

std::optional<std::string_view> FlatLine::text(std::string_view key) const {
  const Entry* const entry = find(key);
  return entry == nullptr ? std::nullopt : entry->text;
}

}  // namespace starling::lab
