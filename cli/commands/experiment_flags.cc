#include "cli/commands/experiment_flags.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "cli/commands/model_name.h"
#include "cli/commands/topology_name.h"
#include "datasets/partition.h"
#include "lab/swarm/peer_command.h"
#include "topologies/topology.h"
#include "training/experiment/check.h"
#include "training/experiment/experiment_file.h"
#include "training/experiment/settings.h"
#include "training/replica/augment.h"
#include "training/replica/recipe.h"

namespace starling::cli {
namespace {

using training::Experiment;
using training::Setting;

// SECTION.KEY=VALUE at its first '='.
Result<std::pair<std::string, std::string>> split_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{"--set: \"" + text + "\" does not have the form section.key=value"};
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// The heading of a key's table in help: "training.pace" is under Training.
std::string section_of(const std::string& key) {
  const std::string table = key.substr(0, key.find('.'));
  if (table == key) return "Run";
  if (table == "model" || table == "data") return "Model and data";
  std::string title = table;
  title.front() = static_cast<char>(title.front() - 'a' + 'A');
  return title;
}

// The settings that plain `--help` shows; `--help all` shows the others, too.
constexpr std::array<std::string_view, 15> kCommonKeys = {"name",
                                                          "seed",
                                                          "peers",
                                                          "model.name",
                                                          "data.source",
                                                          "training.batch_size",
                                                          "training.learning_rate",
                                                          "training.workers",
                                                          "training.device",
                                                          "training.epochs",
                                                          "training.target_accuracy",
                                                          "gossip.rule",
                                                          "gossip.topology",
                                                          "gossip.every",
                                                          "gossip.payload"};

bool is_common(const std::string& key) {
  return std::find(kCommonKeys.begin(), kCommonKeys.end(), key) != kCommonKeys.end();
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> split_sets(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const std::string& text : arguments.all("--set")) {
    auto pair = split_set(text);
    if (!pair) return pair.error();
    sets.push_back(std::move(*pair));
  }
  return sets;
}

std::vector<Flag> experiment_flags(Audience audience) {
  std::vector<Flag> flags;
  for (const Setting& setting : training::settings()) {
    if (setting.flag.empty() || (audience == Audience::peer && !lab::is_peer_setting(setting))) continue;
    flags.push_back({setting.flag, setting.placeholder, setting.help, false, false, section_of(setting.key),
                     is_common(setting.key), setting.environment, setting.key});
  }
  flags.push_back(
      {"--slow", "PEER=FACTOR[@FROM..TO]",
       "a peer's steps (or all peers') take FACTOR times as long, or a random time: log-normal:sigma=1", true,
       audience == Audience::peer, "Run", true});
  flags.push_back({"--set", "SECTION.KEY=VALUE", "any key of the experiment file", true, false, "Run", true});
  return flags;
}

Flag print_config_flag(const std::string& section) {
  return {"--print-config",
          "",
          "print the experiment that flags, variables and file amount to, as such a file, and exit",
          false,
          false,
          section};
}

Status read_experiment(Experiment& experiment, const Arguments& arguments,
                       const std::optional<std::string>& file) {
  const bool is_peer = arguments.command() == "peer";
  if (file) {
    const auto daemon = is_peer ? training::DaemonTable::passed_over : training::DaemonTable::refused;
    if (Status read = training::read_file(experiment, *file, training::Sweeps::refused, daemon); !read)
      return read;
  }
  // In `peer`, STARLING_NAME and the like name the peer, not the run.
  const auto lookup = [&](const char* variable) -> const char* {
    for (const Setting& setting : training::settings())
      if (is_peer && setting.environment == variable && !lab::is_peer_setting(setting)) return nullptr;
    return std::getenv(variable);
  };
  if (Status read = training::read_environment(experiment, lookup); !read) return read;
  Result<std::vector<std::pair<std::string, std::string>>> sets = split_sets(arguments);
  if (!sets) return sets.error();
  for (const auto& [key, value] : *sets)
    if (Status set = training::set_value(experiment, key, value, "--set"); !set) return set;
  for (const Setting& setting : training::settings()) {
    const std::optional<std::string> value =
        setting.flag.empty() ? std::nullopt : arguments.get(setting.flag);
    if (!value) continue;
    if (is_peer && !lab::is_peer_setting(setting)) continue;  // `peer` has a --name of its own
    // The user wrote the flag, so the message names it instead of the key.
    if (Status set = setting.set(experiment, *value); !set)
      return Error{setting.flag + ": " + set.error().message};
  }
  for (const std::string& text : arguments.all("--slow")) {
    Result<training::Fault> fault = training::parse_slow(text);
    if (!fault) return Error{"--slow: " + fault.error().message};
    experiment.faults.push_back(*fault);
  }
  const std::vector<std::string> given = given_keys(arguments);
  const auto is_given = [&](const char* key) {
    return std::find(given.begin(), given.end(), key) != given.end();
  };
  if (Status fine = training::settle_model(experiment, is_given("model.name"), is_given("model.layers"));
      !fine)
    return Error{"--model: " + fine.error().message};
  return resolve_names(experiment);
}

Status resolve_names(Experiment& experiment) {
  if (experiment.layers.empty()) {
    Result<models::ModelText> model = resolve_model(experiment.model);
    if (!model) return model.error();
    experiment.model = std::move(model->name);
    experiment.layers = std::move(model->layers);
  }
  Result<std::string> topology = resolve_topology(experiment.topology);
  if (!topology) return topology.error();
  experiment.topology = *topology;
  experiment.learning_rate = training::resolved_learning_rate(experiment);
  return Done{};
}

std::vector<std::string> given_keys(const Arguments& arguments) {
  std::vector<std::string> keys;
  for (const Setting& setting : training::settings()) {
    if (!setting.flag.empty() && arguments.has(setting.flag)) keys.push_back(setting.key);
  }
  for (const std::string& text : arguments.all("--set")) keys.push_back(text.substr(0, text.find('=')));
  return keys;
}

void set_default_end(Experiment& experiment) {
  if (!experiment.epochs && !experiment.steps && !experiment.seconds && !experiment.target_accuracy) {
    experiment.epochs = 3;
  }
}

std::string data_root() {
  const char* folder = std::getenv("STARLING_DATA");
  return folder == nullptr ? "" : folder;
}

Result<std::string> output_folder(const Experiment& experiment, const Arguments& arguments) {
  if (const auto out = arguments.get("--out")) {
    if (out->empty()) return Error{"--out: expected the path of a folder, got nothing"};
    return *out;
  }
  return "runs/" + experiment.name + "-" + std::to_string(experiment.seed);
}

Status check_experiment(const Experiment& experiment, bool peers_known) {
  if (Status sound = training::check(experiment); !sound) return sound.error();
  const auto topology = topologies::Topology::parse(experiment.topology);
  if (!topology) return topology.error();
  if (Status exists = peers_known ? topology->exists(experiment.peers) : Status(Done{}); !exists)
    return exists.error();
  return datasets::check_partition_name(experiment.partition);
}

Result<Materials> gather_materials(const Experiment& experiment) {
  if (Status sound = check_experiment(experiment); !sound) return sound.error();
  Result<datasets::DataPair> data = datasets::load(experiment.data, data_root());
  if (!data) return data.error();
  Result<models::Plan> plan = training::make_plan(experiment, data->train);
  if (!plan) return plan.error();
  if (experiment.init) {
    if (const auto first = training::starting_parameters(experiment, *plan); !first) return first.error();
  }
  if (const auto changed = training::make_augmentation(experiment, data->train.shape); !changed)
    return changed.error();
  return Materials{std::move(*data), std::move(*plan)};
}

}  // namespace starling::cli
