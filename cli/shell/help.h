// The texts that are made from the commands: --help, the manual page and shell completion. No line of --help
// is longer than kHelpColumns. A command with more flags than fit a screen has a short help with the common
// ones; `--help all` lists all.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/command.h"

namespace starling::cli {

inline constexpr std::size_t kHelpColumns = 100;

// The help of one command.
std::string help_text(const Command& command, bool all);

// The list of the commands of a group ("topology"), or of all if `group` is empty.
std::string help_text(const std::vector<Command>& commands, const std::string& group);

// "starling simulate [EXPERIMENT] [FLAG...]"
std::string usage_of(const Command& command);

// The flag's help with "(repeatable)" or "(required)".
std::string help_of(const Flag& flag);

// The script with which bash, zsh or fish completes commands. An Error for any other shell.
Result<std::string> completion_script(const std::string& shell, std::vector<Command> commands);

// starling(1) as roff, for man.
std::string manual_page(const std::vector<Command>& commands);

// `text` in lines of at most kHelpColumns. The first begins at `column`, and the others are indented to it.
std::string wrapped(const std::string& text, std::size_t column);

}  // namespace starling::cli
