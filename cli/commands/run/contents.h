// What the files that an experiment names contain, compared with earlier runs of it.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "cli/commands/run/experiment_flags.h"
#include "training/runs/experiment/experiment.h"

namespace starling::cli {

// The hashes of training::MadeFrom. Keeps the fingerprint of the data, and reads the peers' own data.
Result<std::map<std::string, std::string>> contents_now(const training::Experiment& experiment,
                                                        Materials& materials);

// Warns of each name that has another content now than when a run wrote `file`, the experiment's.
void warn_of_changes(const training::Experiment& experiment, const std::map<std::string, std::string>& now,
                     const std::string& file);

}  // namespace starling::cli
