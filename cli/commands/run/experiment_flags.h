// An experiment from the command line: flags, --set and --slow override the environment, which overrides the
// file, which overrides the defaults. Also the checks before a run starts, and commands that run an
// experiment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/shell/arguments.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/setting.h"
#include "training/runs/records/record.h"

namespace starling::cli {

enum class Audience {
  run,   // swarm and simulate: everything
  peer,  // one peer: without the settings of a whole run (name, number of peers, target, network)
};

std::vector<Flag> experiment_flags(Audience audience);

// The flag of a setting, of an experiment or of a peer, under this heading in help.
Flag flag_of(const training::SettingText& setting, std::string section = "");

// --print-config: prints the experiment before it is checked as a whole.
Flag print_config_flag(const std::string& section);

// Applies defaults, `file`, STARLING_* variables, --set and flags, in this order. An Error names the place.
Status read_experiment(training::Experiment& experiment, const Arguments& arguments,
                       const std::optional<std::string>& file);

// The keys and values of --set.
Result<std::vector<std::pair<std::string, std::string>>> split_sets(const Arguments& arguments);

// Replaces names of files by the network and the topology, and sets the optimizer's default learning rate.
Status resolve_names(training::Experiment& experiment);

// The keys that flags and --set name.
std::vector<std::string> given_keys(const Arguments& arguments);

// Sets the default end of `swarm` and `simulate`, 3 epochs, if the experiment has none.
void set_default_end(training::Experiment& experiment);

// Folder of the data sets that are not built in: $STARLING_DATA, or empty.
std::string data_root();

// The folder of the results: --out, or runs/NAME-SEED.
Result<std::string> output_folder(const training::Experiment& experiment, const Arguments& arguments);

// Checks everything that can be checked before the data is read. A peer that was started by hand does not
// know the number of peers (`peers_known` false), so its topology need not exist for experiment.peers.
Status check_experiment(const training::Experiment& experiment, bool peers_known = true);

// What a run needs besides the experiment. gather_materials() checks the experiment, loads the data and plans
// the model for it.
struct Materials {
  datasets::DataPair data;
  models::Plan plan;
};
Result<Materials> gather_materials(const training::Experiment& experiment);

// Prints in one line what the reader of the data decided for the user, if it decided anything.
void tell_decisions(const datasets::DataPair& data);

// ---- what `starling simulate` and `starling swarm` share ----

// Runs the experiment and returns the exit code.
using RunExperiment = std::function<int(const Arguments& arguments, const training::Experiment& experiment)>;

// A command that reads its experiment, prints it if --print-config is given, and otherwise runs it. Its flags
// are an experiment's, --print-config, --out, --force, --json and `flags`.
Command run_command(std::string path, std::string summary, const std::vector<Flag>& flags, RunExperiment run,
                    std::string example);

// Writes the report of the folder, prints the summary, and returns kExitDone; after an interruption
// kExitInterrupted, with a line that says how far the run is, and how to continue it (`remedy`, or empty).
int print_results(const Arguments& arguments, const training::Summary& summary, const std::string& folder,
                  const std::string& remedy);
// Prints the summary of a run that was complete before the command, and returns kExitDone.
int print_done(const Arguments& arguments, const training::Summary& summary, const std::string& folder);

}  // namespace starling::cli
