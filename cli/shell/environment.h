// The environment variables that begin with STARLING_. A misspelled one would be ignored in silence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/command.h"

namespace starling::cli {

// What is wrong with the variable if no flag of `commands` and no other part of Starling reads it:
// "the variable STARLING_LERNING_RATE names no setting and is ignored; did you mean STARLING_LEARNING_RATE?".
// Empty if something reads it, or if its name does not begin with STARLING_.
std::string problem_of_variable(std::string_view name, const std::vector<Command>& commands);

// The problems of this process's variables.
std::vector<std::string> problems_of_environment(const std::vector<Command>& commands);

}  // namespace starling::cli
