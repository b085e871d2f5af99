// The file of the token for commands over HTTP, which a peer and those who send it commands read.
#pragma once

#include <string>

#include "base/result.h"

namespace starling::node {

// The file's first line without spaces around it: 16 to 256 letters, digits, '-', '_', '.', '~', '+', '/' or
// '='. An Error if the file cannot be read, holds something else, or can be read by other users.
Result<std::string> read_command_token(const std::string& path);

}  // namespace starling::node
