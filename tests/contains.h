// A search in a text that tests read well.
#pragma once

#include <string>
#include <string_view>

namespace starling {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace starling
