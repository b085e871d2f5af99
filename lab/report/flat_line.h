// A line of metrics.jsonl or timeline.jsonl: a JSON object without objects and lists in it. Reports read
// millions of them, so the common form is scanned in place; any other is left to the parser of JSON.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling::lab {

class FlatLine {
 public:
  // Reads a line, whose text must outlive the values. False if it is not a JSON object.
  bool read(std::string_view line);

  // A number, or a text; nullopt if the key is absent or has another kind of value.
  std::optional<double> figure(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;

 private:
  struct Entry {
    std::string_view key;
    std::optional<double> number;
    std::optional<std::string_view> text;
  };

  // False if the line has another form than {"key":value,"key":value}, with plain texts, numbers, true, false
  // and null. Then it may be JSON all the same.
  bool scan(std::string_view line);
  bool scan_value(std::string_view& rest, Entry& entry);
  bool parse(std::string_view line);
  const Entry* find(std::string_view key) const;

  std::vector<Entry> entries_;
  std::deque<std::string> kept_;  // texts of a line that was parsed
};

}  // namespace starling::lab
