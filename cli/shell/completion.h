// Shell completion and the manual page, both generated from the commands.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/command.h"

namespace starling::cli {

// The script for bash, zsh or fish. An Error for any other shell.
Result<std::string> completion_script(const std::string& shell, std::vector<Command> commands);

// starling(1) as roff, for man.
std::string manual_page(const std::vector<Command>& commands);

}  // namespace starling::cli
