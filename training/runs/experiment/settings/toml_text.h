// The text of a TOML file of a user, before it is parsed.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace starling::training {

inline constexpr std::size_t kLargestExperimentFile = 1 << 20;  // bytes; an experiment is a page

// Reads the file, of at most kLargestExperimentFile bytes. Error, one sentence with the path: it cannot be
// read, or a key has very many dots (base/toml_keys.h).
Result<std::string> read_toml(const std::string& path);

}  // namespace starling::training
