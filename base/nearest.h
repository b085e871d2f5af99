// The nearest of some names, for a sentence that says what may have been meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace starling {

// Levenshtein's distance: the least number of letters that must be put in, taken out or changed. Takes time
// as the product of the lengths, so what comes from outside is cut first.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The first of those names that are fewest slips from `text`, at most two; nullptr where none is.
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
