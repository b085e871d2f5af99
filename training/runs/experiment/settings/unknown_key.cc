// What is said of a key that does not exist.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {
namespace {

std::string_view table_of(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : key.substr(0, dot);
}

std::string_view leaf_of(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

std::string unknown_key(std::string_view key, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;  // what came from outside is cut before it is compared or shown
  const bool cut = key.size() > kLongest;
  key = key.substr(0, kLongest);

  // A right leaf under a wrong or missing table counts as one slip.
  const std::string* nearest = nullptr;
  std::size_t least = 3;  // more slips than two: no suggestion
  std::vector<std::string> candidates = known;
  if (table_of(key).empty()) {  // it may have been meant for a table
    for (const auto& candidate : known) {
      if (!table_of(candidate).empty()) candidates.emplace_back(table_of(candidate));
    }
  }
  for (const auto& candidate : candidates) {
    const std::size_t slips =
        leaf_of(candidate) == leaf_of(key) ? std::size_t{1} : edit_distance(key, candidate);
    if (slips < least) {
      least = slips;
      nearest = &candidate;
    }
  }

  std::string text = "unknown key '" + std::string(key) + (cut ? "...'" : "'");
  if (nearest != nullptr) text += "; did you mean " + *nearest + "?";

  const std::string_view table = table_of(key);
  std::vector<std::string> siblings, tables;
  for (const auto& candidate : known) {
    if (table_of(candidate) == table) siblings.emplace_back(leaf_of(candidate));
    const std::string name = "[" + std::string(table_of(candidate)) + "]";
    if (name != "[]" && std::find(tables.begin(), tables.end(), name) == tables.end()) tables.push_back(name);
  }
  text += nearest != nullptr ? " " : "; ";
  if (siblings.empty()) {
    text += "the tables are " + one_of(tables);
  } else if (table.empty()) {
    for (auto& name : tables) siblings.push_back(std::move(name));
    text += "the top level accepts " + one_of(siblings);
  } else {
    text += "[" + std::string(table) + "] accepts " + one_of(siblings);
  }
  return text;
}

}  // namespace starling::training
