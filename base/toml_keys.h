// A check of TOML before it is parsed. The parser limits how deep values are nested, but each dot of a key
// opens a table, too, and deep tables are destroyed recursively.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace starling {

inline constexpr int kKeyDotsMax = 16;

// The line, from 1, of the first key with more dots. Nothing between two of the characters , = [ ] { } and
// line ends has more; text in quotes and comments is ignored.
std::optional<int> line_of_deep_key(std::string_view toml);

}  // namespace starling
