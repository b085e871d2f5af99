// `starling plan --published`: speed-ups that papers published, beside ours.
#pragma once

#include "cli/shell/arguments.h"

namespace starling::cli {

inline constexpr const char* kProfilesVariable = "STARLING_PIPEDREAM";

// Prints the table, or with --json one object. Returns the exit code.
int print_published(const Arguments& arguments);

}  // namespace starling::cli
