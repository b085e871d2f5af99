// Shell completion and the manual page, written from the commands' tables, so that neither can fall behind
// them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/command.h"

namespace starling::cli {

// A script for bash, zsh or fish to be read by that shell; an Error for any other one.
Result<std::string> completion_script(const std::string& shell, const std::vector<Command>& commands,
                                      const std::vector<Flag>& shared);

// starling(1) as roff, for man.
std::string manual_page(const std::vector<Command>& commands, const std::vector<Flag>& shared);

}  // namespace starling::cli
