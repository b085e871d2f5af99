// What `starling simulate` and `starling swarm` share: an experiment from a file and flags, and a folder of
// results with a summary and a report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/shell/arguments.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::cli {

// Runs the experiment and returns the exit code.
using RunExperiment = std::function<int(const Arguments& arguments, const training::Experiment& experiment)>;

// A command that reads its experiment, prints it if --print-config is given, and otherwise runs it. Its flags
// are those of an experiment, --print-config, --out, --force, --json and `flags`.
Command run_command(std::string path, std::string summary, const std::vector<Flag>& flags, RunExperiment run,
                    std::string example);

// Writes the report of the folder, prints the summary, and returns kExitDone.
int print_results(const Arguments& arguments, const training::Summary& summary, const std::string& folder);

}  // namespace starling::cli
