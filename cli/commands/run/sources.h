// The sources of a daemon's own options: flags (and --set daemon.KEY=VALUE) override STARLING_* variables,
// which override the [daemon] table of the experiment file. The experiment itself has the same order of
// sources (cli/commands/run/experiment_flags.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

// Adds the values of the flags that `arguments` lack: from --set daemon.KEY=VALUE, then from the variables,
// then from the file of --config. Other --set values stay. Flags that are only_on_the_command_line are left
// out. An Error names the place.
Status add_sources(Arguments& arguments, const std::vector<Flag>& flags);

// Only from the variables.
void add_environment(Arguments& arguments, const std::vector<Flag>& flags);

// "[daemon]" and one line per flag in `arguments`; empty if there is none.
std::string daemon_table(const Arguments& arguments, const std::vector<Flag>& flags);

}  // namespace starling::cli
