// Names with an option after a colon, as the catalogue and the partitions use them: "glyphs:seed=7",
// "dirichlet:alpha=0.1". A name has at most one option.
#pragma once

#include <string_view>

namespace starling::datasets {

struct NameWithOption {
  std::string_view base;   // "glyphs"
  std::string_view key;    // "seed"; empty without a colon
  std::string_view value;  // "7"
};

// Splits at the first colon, and the rest at its first '='. The result refers to `name`.
inline NameWithOption split_option(std::string_view name) {
  NameWithOption parts;
  const std::size_t colon = name.find(':');
  parts.base = name.substr(0, colon);
  if (colon == std::string_view::npos) return parts;
  const std::string_view option = name.substr(colon + 1);
  const std::size_t equals = option.find('=');
  parts.key = option.substr(0, equals);
  if (equals != std::string_view::npos) parts.value = option.substr(equals + 1);
  return parts;
}

}  // namespace starling::datasets
