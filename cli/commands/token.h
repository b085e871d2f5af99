// The file with the token that orders to a peer over HTTP are given with.
#pragma once

#include <string>

#include "base/result.h"

namespace starling::cli {

// Its first line, without spaces around it: 16 to 256 letters, digits, '-', '_', '.', '~', '+', '/' or '='. An Error where the
// file cannot be read, holds something else, or can be read by others than its owner.
Result<std::string> read_token(const std::string& path);

}  // namespace starling::cli
