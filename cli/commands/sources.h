// Where a daemon's own options come from: its flags (and --set daemon.KEY=VALUE) beat STARLING_* variables,
// which beat the [daemon] table of its experiment's file. What is trained has sources of its own
// (cli/experiment_flags.h), in the same order.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

// Gives each of a daemon's own options its variable and its key: --token-file has STARLING_TOKEN_FILE and
// daemon.token_file.
void name_sources(std::vector<Flag>& flags);

// Adds to `arguments`, for the flags that they lack, what --set daemon.KEY=VALUE says, then the variables,
// then the table of the file that --config names by then. --set keeps what is not about the daemon. Error: a
// sentence that names the place.
Status add_sources(Arguments& arguments, const std::vector<Flag>& flags);

// The variables alone.
void add_environment(Arguments& arguments, const std::vector<Flag>& flags);

// "[daemon]" and a line for each of the flags that `arguments` have; empty where they have none.
std::string daemon_table(const Arguments& arguments, const std::vector<Flag>& flags);

}  // namespace starling::cli
