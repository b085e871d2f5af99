// What the shell writes as JSON: lines of the log and the tables of commands.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace starling::cli {

// One line of the log, its newline included: {"time": ..., "level": ..., "peer": ..., "message": ...}; no "peer" where
// it is empty. What is no UTF-8 is replaced.
std::string log_line_json(const std::string& time, const std::string& level, const std::string& peer,
                          const std::string& message);

// {"commands": [{"path": ..., "positionals": [...], "flags": [...], "example": ...}, ...], "shared": [...]}
std::string tables_json(const std::vector<Command>& commands, const std::vector<Flag>& shared);

}  // namespace starling::cli
