#include "training/runs/experiment/kinds.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace starling::training {
namespace {

// Columns of results.csv, curves.csv and the table of a report that are also last parts of keys.
constexpr std::array<std::string_view, 8> kTaken = {"seconds",         "steps", "samples", "accuracy",
                                                    "target_accuracy", "runs",  "run",     "look"};

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

std::vector<std::string> short_names(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    const std::string last = last_part(key);
    const auto uses = std::count_if(keys.begin(), keys.end(),
                                    [&](const std::string& other) { return last_part(other) == last; });
    const bool taken = std::find(kTaken.begin(), kTaken.end(), last) != kTaken.end();
    names.push_back(uses == 1 && !taken ? last : key);
  }
  return names;
}

std::string kind_text(const std::vector<std::string>& names, const std::vector<std::string>& values) {
  STARLING_CHECK(names.size() == values.size());
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (values[i].empty()) continue;
    if (!text.empty()) text += ",";
    text += names[i];
    text += "=" + values[i];
  }
  return text;
}

std::string file_name_of(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-' || c == '+';
    if (!plain) c = '-';
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace starling::training
