// Settings that a user has set and that have no effect in the run, such as --clip with the rule pairwise.
#pragma once

#include <optional>
#include <string>

#include "cli/shell/arguments.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/sweep.h"

namespace starling::cli {

// Logs a warning for each setting that has no effect although a flag, --set or a variable sets it, or the
// file sets it to another value than the default. REQUIRES: read_experiment() has read `experiment` from
// these sources.
void warn_of_idle_settings(const Arguments& arguments, const training::Experiment& experiment,
                           const std::optional<std::string>& file);

// The same for settings of a sweep that have no effect in any of its experiments.
void warn_of_idle_settings(const Arguments& arguments, const training::Sweep& sweep, const std::string& file);

}  // namespace starling::cli
