// Finds the name most similar to a misspelled one, for the suggestion in an error message.
#pragma once

#include <cstddef>
#include <string_view>

namespace starling {

// The Levenshtein distance: the least number of insertions, deletions and substitutions of characters. The
// time is proportional to the product of the lengths, so callers truncate input from outside.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The name with the least distance from `text`, the first of several; nullptr if all distances exceed 2.
template <class Names>
auto nearest(std::string_view text, const Names& names) -> decltype(&*std::begin(names)) {
  decltype(&*std::begin(names)) found = nullptr;
  std::size_t least = 3;
  for (const auto& name : names) {
    const std::size_t slips = edit_distance(text, name);
    if (slips >= least) continue;
    least = slips;
    found = &name;
  }
  return found;
}

}  // namespace starling
