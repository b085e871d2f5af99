// The text of a TOML file of a user, before it is parsed. The parser limits nested values, but each dot of a
// key opens a table, too, and deep tables are destroyed recursively: keys with many dots are rejected here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::training {

inline constexpr int kKeyDotsMax = 16;

// The line, from 1, of the first key with more dots. Nothing between two of the characters , = [ ] { } and
// line ends has more; text in quotes and comments is ignored.
std::optional<int> line_of_deep_key(std::string_view toml);

// Reads the file, of at most kLargestExperimentFile bytes. Error: one sentence with the path.
Result<std::string> read_toml(const std::string& path);

}  // namespace starling::training
