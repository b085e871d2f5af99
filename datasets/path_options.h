// What the user says of data in options after their path: "iris.csv:label=species",
// "train.bin:tokens=bytes:width=32".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::datasets {

// Empty: not said.
struct PathOptions {
  std::string label;     // of a table: the column of labels, by its name or number
  std::string tokens;    // of a text: "characters", "bytes" or the path of a tokenizer
  std::string special;   // of a text: "text" or "tokens", what special tokens in it are
  std::string width;     // of a file of tokens: "16" or "32", the bits of its numbers
  std::string channels;  // of NumPy's images: "first" or "last"
};

struct PathWithOptions {
  std::string path;
  PathOptions options = {};
};

// A path that exists has no options, whatever its name. Colons may be part of a path: options begin at the
// first ":KEY=" with the key of one. The Error lists the options.
Result<PathWithOptions> split_path(const std::string& name);

// As they follow a path; empty without options.
std::string options_text(const PathOptions& options);

// An Error if an option is set whose key is not one of `accepted`, which are separated by spaces.
Status check_options(const PathWithOptions& parts, std::string_view accepted);

}  // namespace starling::datasets
