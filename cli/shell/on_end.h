// --on-end CMD: a notice when a run has ended.
#pragma once

#include <string>

#include "cli/shell/arguments.h"
#include "cli/shell/command.h"

namespace starling::cli {

Flag on_end_flag(const std::string& section = "");

struct RunEnd {
  int exit_code = 0;
  std::string state{};  // finished, stopped, left or failed; empty: by the exit code
  std::string name{};   // of the run or the peer
};

// Runs the command of --on-end, if there is one, with /bin/sh and these variables: RUN_STATE, RUN_NAME,
// RUN_COMMAND ("peer") and RUN_EXIT_CODE. Waits ten seconds for it at most, then leaves it running. Returns
// the run's exit code, also if the command fails: that is a warning.
int on_end(const Arguments& arguments, const RunEnd& end);

}  // namespace starling::cli
