// How and what the process logs, on standard error: lines for people, or one JSON object a line. Flags beat
// the environment (STARLING_LOG_FORMAT, STARLING_LOG_LEVEL), which the processes that a command starts
// inherit.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace starling::cli {

// Before the command line is read: text, unless the environment or a --log-format there says json.
void begin_log(int argc, const char* const* argv);

// What the user wants; an Error names the flag or the variable. Puts it into the environment too.
Status set_log(const std::optional<std::string>& format, const std::optional<std::string>& level);

bool log_is_json();

// A line on standard error that is no log of something that happened: a complaint, progress. In JSON it
// becomes one.
enum class Told { progress, complaint };
void tell(Told what, const std::string& sentence);

// Whether standard error is a terminal on which a line may be redrawn.
bool may_redraw();

}  // namespace starling::cli
