#include "cli/commands/run/experiment_flags.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "cli/commands/named_files.h"
#include "cli/commands/run/idle_settings.h"
#include "cli/shell/on_end.h"
#include "cli/shell/output.h"
#include "datasets/description.h"
#include "datasets/partition.h"
#include "gossip/rules.h"
#include "lab/report/report.h"
#include "lab/swarm/peer_command.h"
#include "topologies/topology.h"
#include "training/learning/augment.h"
#include "training/learning/recipe.h"
#include "training/learning/split.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/experiment/settings/presets.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::cli {
namespace {

using training::Experiment;
using training::Setting;

// The heading in help: "training.pace" is under Training.
std::string section_of(const std::string& key) {
  const std::string table = key.substr(0, key.find('.'));
  if (table == key) return "Run";
  if (table == "model" || table == "data") return "Model and data";
  return static_cast<char>(table.front() - 'a' + 'A') + table.substr(1);
}

// The settings of the short help.
constexpr std::array kCommonKeys = {"name",
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

// Reads the sources of settings over `experiment`.
Status read_sources(Experiment& experiment, const Arguments& arguments,
                    const std::optional<std::string>& file);

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> split_sets(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const std::string& text : arguments.all("--set")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{"--set: '" + text + "' does not have the form section.key=value"};
    sets.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return sets;
}

Flag flag_of(const training::SettingText& setting, std::string section) {
  return {.name = setting.flag,
          .placeholder = setting.placeholder,
          .help = setting.help,
          .section = std::move(section),
          .environment = setting.environment,
          .key = setting.key,
          .alone = setting.alone,
          .values = setting.choices};
}

std::vector<Flag> experiment_flags(Audience audience) {
  std::vector<Flag> flags;
  for (const Setting& setting : training::settings()) {
    if (setting.flag.empty() || (audience == Audience::peer && !lab::is_peer_setting(setting))) continue;
    flags.push_back(flag_of(setting, section_of(setting.key)));
    flags.back().common = std::ranges::find(kCommonKeys, setting.key) != kCommonKeys.end();
  }
  flags.push_back({"--slow", "PEER=FACTOR[@FROM..TO]",
                   "steps of PEER (or all) take FACTOR times as long; a random FACTOR: log-normal:sigma=1",
                   true, audience == Audience::peer, "Run", true});
  flags.push_back(
      {"--set", "SECTION.KEY=VALUE", "set any key of the experiment file", true, false, "Run", true});
  return flags;
}

Flag print_config_flag(const std::string& section) {
  return {.name = "--print-config",
          .help = "print the experiment that results from flags, variables and file, and exit",
          .section = section};
}

Status read_experiment(Experiment& experiment, const Arguments& arguments,
                       const std::optional<std::string>& file) {
  Experiment probe = experiment;
  probe.optimizer.name.clear();
  if (Status read = read_sources(probe, arguments, file); !read) return read;
  const auto preset = training::preset_for(probe, arguments.command() != "peer");
  if (preset.empty() || arguments.has("--join")) {
    if (probe.optimizer.name.empty()) probe.optimizer.name = experiment.optimizer.name;
    experiment = std::move(probe);
    return Done{};
  }
  if (!arguments.has("--print-config"))
    tell(Told::progress, probe.model.name + " is trained with its preset, " + training::flags_of(preset) +
                             ", and what the command sets otherwise; --optimizer leaves the preset out");
  training::set_preset(preset, experiment);
  return read_sources(experiment, arguments, file);
}

namespace {

Status read_sources(Experiment& experiment, const Arguments& arguments,
                    const std::optional<std::string>& file) {
  const bool is_peer = arguments.command() == "peer";
  if (file) {
    const auto daemon = is_peer ? training::DaemonTable::passed_over : training::DaemonTable::refused;
    if (Status read = training::read_file(experiment, *file, training::Sweeps::refused, daemon); !read)
      return read;
  }
  // STARLING_NAME and other variables of `starling peer` describe the peer, not the run.
  const auto lookup = [&](const char* variable) -> const char* {
    for (const Setting& setting : training::settings())
      if (is_peer && setting.environment == variable && !lab::is_peer_setting(setting)) return nullptr;
    return std::getenv(variable);
  };
  if (Status read = training::read_environment(experiment, lookup); !read) return read;
  const auto sets = split_sets(arguments);
  if (!sets) return sets.error();
  for (const auto& [key, value] : *sets)
    if (Status set = training::set_value(experiment, key, value, "--set"); !set) return set;
  for (const Setting& setting : training::settings()) {
    if (setting.flag.empty() || !arguments.has(setting.flag)) continue;
    if (is_peer && !lab::is_peer_setting(setting)) continue;  // `peer` has a --name of its own
    // The user gave the flag, so the message names it instead of the key.
    if (Status set = setting.set(experiment, *arguments.get(setting.flag)); !set)
      return Error{setting.flag + ": " + set.error().message};
  }
  for (const std::string& text : arguments.all("--slow")) {
    Result<training::Fault> fault = training::parse_slow(text);
    if (!fault) return Error{"--slow: " + fault.error().message};
    experiment.faults.push_back(*fault);
  }
  const std::vector<std::string> given = given_keys(arguments);
  const auto is_given = [&](const char* key) { return std::ranges::find(given, key) != given.end(); };
  if (Status fine = training::settle_model(experiment, is_given("model.name"), is_given("model.layers"));
      !fine)
    return Error{"--model: " + fine.error().message};
  return resolve_names(experiment);
}

}  // namespace

Status resolve_names(Experiment& experiment) {
  if (experiment.model.layers.empty()) {
    Result<models::ModelText> model = resolve_model(experiment.model.name);
    if (!model) return model.error();
    experiment.model.name = std::move(model->name);
    experiment.model.layers = std::move(model->layers);
  }
  Result<std::string> topology = resolve_topology(experiment.gossip.topology);
  if (!topology) return topology.error();
  experiment.gossip.topology = *topology;
  experiment.optimizer.learning_rate = training::resolved_learning_rate(experiment);
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
  if (!experiment.end.epochs && !experiment.end.steps && !experiment.end.seconds &&
      !training::has_target(experiment.end)) {
    experiment.end.epochs = 3;
  }
}

std::string data_root() {
  const char* folder = std::getenv("STARLING_DATA");
  return folder == nullptr ? "" : folder;
}

Result<std::string> output_folder(const Experiment& experiment, const Arguments& arguments) {
  const std::string out =
      arguments.get("--out").value_or("runs/" + experiment.name + "-" + std::to_string(experiment.seed));
  if (out.empty()) return Error{"--out: the path is empty"};
  return out;
}

Status check_experiment(const Experiment& experiment, bool peers_known) {
  if (Status sound = training::check(experiment); !sound) return sound.error();
  const auto topology = topologies::Topology::parse(experiment.gossip.topology);
  if (!topology) return topology.error();
  if (Status exists = peers_known ? topology->exists(experiment.peers) : Status(Done{}); !exists)
    return exists.error();
  if (const auto why = gossip::obstacle_to(traits(experiment.gossip.rule), *topology))
    return Error{"gossip.topology: " + *why + "; choose an undirected topology, or the rule push-sum"};
  return datasets::check_partition_name(experiment.data.partition);
}

Result<Materials> gather_materials(const Experiment& experiment) {
  if (Status sound = check_experiment(experiment); !sound) return sound.error();
  Result<datasets::DataPair> data = training::load_data(experiment, data_root());
  if (!data) return data.error();
  Result<models::Plan> plan = training::make_plan(experiment, *data);
  if (!plan) return plan.error();
  if (experiment.model.init) {
    const auto first = training::starting_parameters(experiment, *plan);
    if (!first) return first.error();
    warn(first->note);
  }
  if (const auto changed = training::make_augmentation(experiment, data->train); !changed)
    return changed.error();
  std::set<std::string> own;
  for (std::uint32_t peer = 0; peer < (experiment.own.empty() ? 1 : experiment.peers); ++peer) {
    const Experiment its = training::of_peer(experiment, peer);
    if (const auto divided = training::settle_split(its, *plan, nullptr); !divided) return divided.error();
    if (!its.data.own_data || !own.insert(*its.data.own_data).second) continue;
    if (Status fits = training::add_own_data(its, data_root(), *data); !fits) return fits.error();
    data->own.reset();
  }
  if (const auto schedule = training::make_schedule(experiment, data->train.size(), data->train.context);
      !schedule)
    return schedule.error();
  const auto shard = datasets::partition(data->train, experiment.data.partition,
                                         static_cast<int>(experiment.peers), 0, experiment.seed);
  if (!shard) return Error{"data.partition: " + shard.error().message};
  return Materials{std::move(*data), std::move(*plan)};
}

void tell_decisions(const datasets::DataPair& data) {
  if (const std::string decided = datasets::decisions_text(data); !decided.empty())
    tell(Told::progress, "data " + decided);
}

Command run_command(std::string path, std::string summary, const std::vector<Flag>& flags, RunExperiment run,
                    std::string example) {
  Command command{std::move(path), std::move(summary)};
  command.positionals = {{"EXPERIMENT", "a TOML file (default: the default settings)", false}};
  command.flags = experiment_flags(Audience::run);
  command.flags.push_back(print_config_flag("Run"));
  for (const auto& [name, placeholder, help] :
       {std::tuple("--out", "DIR", "folder of the results (default runs/NAME-SEED)"),
        {"--force", "", "write into a folder that contains results"},
        {"--json", "", "print the summary as one JSON object"}}) {
    command.flags.push_back(
        {.name = name, .placeholder = placeholder, .help = help, .section = "Results", .common = true});
  }
  command.flags.push_back(on_end_flag("Results"));
  command.flags.insert(command.flags.end(), flags.begin(), flags.end());
  command.run = [run = std::move(run)](const Arguments& arguments) {
    training::Experiment experiment;
    if (Status read = read_experiment(experiment, arguments, arguments.get("EXPERIMENT")); !read)
      return refuse(arguments, read.error());
    if (arguments.has("--print-config")) return print_out(training::to_toml(experiment));
    warn_of_idle_settings(arguments, experiment, arguments.get("EXPERIMENT"));
    set_default_end(experiment);
    return on_end(arguments, {.exit_code = run(arguments, experiment), .name = experiment.name});
  };
  command.example = std::move(example);
  return command;
}

int print_results(const Arguments& arguments, const training::Summary& summary, const std::string& folder,
                  const std::string& remedy) {
  const Status drawn = lab::write_report(folder);
  if (!drawn) warn(drawn.error().message);
  int code =
      print_out(arguments.has("--json") ? training::to_json(summary) + "\n" : summary_text(summary, folder));
  if (!drawn && code == kExitDone) code = kExitRunFailed;
  if (!summary.interrupted || code != kExitDone) return code;
  tell(Told::complaint, "starling " + arguments.command() + ": " + stopped_at(summary) +
                            (remedy.empty() ? "" : "; " + remedy));
  return kExitInterrupted;
}

int print_done(const Arguments& arguments, const training::Summary& summary, const std::string& folder) {
  tell(Told::progress, folder + " holds the results of this run already; --force runs it again");
  return print_out(arguments.has("--json") ? training::to_json(summary) + "\n"
                                           : summary_text(summary, folder));
}

}  // namespace starling::cli
