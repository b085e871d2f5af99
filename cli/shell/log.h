// The log of the process, on standard error: lines for people, or one JSON object per line. Flags override
// the environment (STARLING_LOG_FORMAT, STARLING_LOG_LEVEL), which processes that a command starts inherit.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace starling::cli {

// Sets up the log before the command line is parsed: as text, unless the environment or --log-format is json.
void begin_log(int argc, const char* const* argv);

// Applies --log-format and --log-level, or else the variables, and sets the variables to the flags' values.
// An Error names the flag or the variable.
Status set_log(const std::optional<std::string>& format, const std::optional<std::string>& level);

bool log_is_json();

// Writes a line to standard error that is not an event: an error message or progress. In JSON it is a line of
// the log with level error or info.
enum class Told { progress, complaint };
void tell(Told what, const std::string& sentence);

// Whether standard error is a terminal on which a line can be redrawn.
bool may_redraw();

}  // namespace starling::cli
