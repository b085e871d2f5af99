// An experiment from the command line: the flags of training::settings(), --set and --slow, put over the
// environment, which is put over the file, which is put over the defaults. And the questions to ask before
// anything is started.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"

namespace starling::cli {

enum class Audience {
  run,   // swarm and simulate: everything
  peer,  // one peer: without what only a whole run has (its name, its number of peers, its target, its
         // network)
};

std::vector<Flag> experiment_flags(Audience audience);

// For whoever wants to know what came of flags, variables and file; printed before it is checked as a whole.
Flag print_config_flag(const std::string& section);

// defaults < `file` < STARLING_* < --set < flags. The Error names the place.
Status read_experiment(training::Experiment& experiment, const Arguments& arguments,
                       const std::optional<std::string>& file);

// Every --set, as a key and a value.
Result<std::vector<std::pair<std::string, std::string>>> split_sets(const Arguments& arguments);

// What was read, with its network and its topology looked up where those are files, and the learning rate that
// its optimizer has by default.
Status resolve_names(training::Experiment& experiment);

// The keys that flags and --set name, for refusing some of them.
std::vector<std::string> given_keys(const Arguments& arguments);

// Sets the default end of `swarm` and `simulate` where none is given: 3 epochs.
void set_default_end(training::Experiment& experiment);

// Folder of the data sets that are not built in: $STARLING_DATA, or empty.
std::string data_root();

// Where the results go: --out, or runs/NAME-SEED.
Result<std::string> output_folder(const training::Experiment& experiment, const Arguments& arguments);

// The experiment as a whole, its topology and its partition: all that can be told before the data is read. A peer that
// was started by hand does not know how many there will be (`peers_known` false), so its topology need not exist for
// experiment.peers.
Status check_experiment(const training::Experiment& experiment, bool peers_known = true);

// Everything a run needs and a name can be wrong in: checks the experiment as a whole, its topology and
// partition, loads the data, and fits the model to it.
struct Materials {
  datasets::DataPair data;
  models::Plan plan;
};
Result<Materials> gather_materials(const training::Experiment& experiment);

}  // namespace starling::cli
