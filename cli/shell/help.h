// What --help prints, from the commands' tables: no line longer than a screen is wide, and a command with
// more flags than a screen has lines shows the common ones alone unless all are asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace starling::cli {

inline constexpr std::size_t kHelpColumns = 100;
inline constexpr std::size_t kHelpLines = 40;  // of any --help but --help all

// A command's own page. `shared` are the flags that it has in common with all others.
std::string help_text(const Command& command, const std::vector<Flag>& shared, bool all);

// The list of all commands; with a group ("topology"), of its own.
std::string help_text(const std::vector<Command>& commands, const std::string& group,
                      const std::vector<Flag>& shared);

// "[EXPERIMENT] [FLAG...]": what stands behind a command's name.
std::string usage_of(const Command& command);

// Whether the short help leaves some of its flags out.
bool has_more_flags(const Command& command);

// `text` in lines of at most kHelpColumns, the first of which begins at `column` and the others are moved
// there.
std::string wrapped(const std::string& text, std::size_t column);

}  // namespace starling::cli
