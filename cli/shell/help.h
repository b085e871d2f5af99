// The texts of --help, made from the commands. No line is longer than kHelpColumns. A command with more flags
// than fit a screen has a short help with the common ones; `--help all` lists all.
#pragma once

#include <string>
#include <vector>

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

// `text` in lines of at most kHelpColumns. The first begins at `column`, and the others are indented to it.
std::string wrapped(const std::string& text, std::size_t column);

}  // namespace starling::cli
