// JSON that the shell writes: lines of the log and the table of commands.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace starling::cli {

// One line of the log with its newline: {"time": ..., "level": ..., "peer": ..., "message": ...}, without
// "peer" if it is empty. Replaces invalid UTF-8.
std::string log_line_json(const std::string& time, const std::string& level, const std::string& peer,
                          const std::string& message);

// {"commands": [{"path": ..., "positionals": [...], "flags": [...], "example": ...}, ...], "shared": [...]}
std::string tables_json(const std::vector<Command>& commands);

}  // namespace starling::cli
