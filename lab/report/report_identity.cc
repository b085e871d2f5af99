// What a run of a report is, apart from its seed: the settings that count, with the values that are used, and
// the contents that they name.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "lab/report/report.h"
#include "topologies/graph_file.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

using training::Experiment;

// The experiment of the file; of one with keys of another version, those that are known here.
Experiment experiment_of(const ReportRun& run, const std::string& path) {
  Experiment experiment;
  if (training::read_file(experiment, path)) return experiment;
  for (const auto& [key, value] : run.settings)
    if (const training::Setting* setting = training::find_setting(key)) (void)setting->set(experiment, value);
  return experiment;
}

void drop_without_effect(ReportRun& run, const Experiment& experiment) {
  const auto counts = run.mode == "simulate" ? training::has_virtual_effect : training::has_effect;
  for (const auto& [key, value] : run.settings)
    if (!counts(experiment, key)) run.without_effect.insert(key);
  for (const std::string& key : run.without_effect) run.settings.erase(key);
  // Nor has the number of a [[peer]] without other settings.
  std::erase_if(run.settings, [&](const auto& setting) {
    const std::string& key = setting.first;
    if (!key.starts_with("peer.") || !key.ends_with(".number")) return false;
    const std::string table = key.substr(0, key.rfind('.') + 1);
    return std::ranges::none_of(run.settings, [&](const auto& other) {
      return other.first != key && other.first.starts_with(table);
    });
  });
}

// One spelling of the values of [[peer]]s, which their file has as they were written: "0.03s" is "30ms".
void spell_own_values(ReportRun& run) {
  const std::string table = "peer.";
  for (auto& [key, value] : run.settings) {
    const std::size_t dot = key.find('.', table.size());
    if (!key.starts_with(table) || dot == std::string::npos) continue;
    const training::Setting* const setting = training::find_own(key.substr(dot + 1));
    Experiment scratch;
    if (setting != nullptr && setting->set(scratch, value)) value = setting->get(scratch).value_or(value);
  }
}

// bf16 is float32 where the processor has no products of it: the peers say what they computed with.
template <class Has>
void take_precision(ReportRun& run, const std::string& key, const Has& has) {
  const auto setting = run.settings.find(key);
  if (setting == run.settings.end()) return;
  std::set<std::string> found;  // servers say nothing
  for (std::uint32_t peer = 0; peer < run.per_peer.size(); ++peer)
    if (has(peer) && !run.per_peer[peer].precision.empty()) found.insert(run.per_peer[peer].precision);
  if (found.size() == 1) setting->second = *found.begin();
}

void take_precisions(ReportRun& run, const Experiment& experiment) {
  take_precision(run, "training.precision", [&](std::uint32_t peer) {
    return std::ranges::none_of(experiment.own,
                                [&](const training::OwnSettings& own) { return own.peers.contains(peer); });
  });
  for (std::size_t i = 0; i < experiment.own.size(); ++i)
    take_precision(run, "peer." + std::to_string(i + 1) + ".precision",
                   [&](std::uint32_t peer) { return experiment.own[i].peers.contains(peer); });
}

// What a run uses where nothing, 0 or auto is set.
void take_used(ReportRun& run, const Experiment& experiment) {
  run.used =
      run.mode == "simulate" ? training::used_virtual_values(experiment) : training::used_values(experiment);
  for (const auto& [key, value] : run.used) run.settings.erase(key);
}

// A graph from a file, and layers, are called by the name of their file.
void take_contents(ReportRun& run) {
  const auto topology = run.settings.find("gossip.topology");
  if (topology != run.settings.end()) {
    const std::string shown = topologies::shown_name(topology->second);
    if (shown != topology->second) {
      run.contents["gossip.topology"] = topologies::name_without_file(topology->second);
      topology->second = shown;
    }
  }
  const auto layers = run.settings.find("model.layers");
  if (layers == run.settings.end()) return;
  run.contents["model.name"] = std::move(layers->second);
  run.settings.erase(layers);
}

void take_target(ReportRun& run) {
  for (const std::string key : {"training.target_accuracy", "training.target_loss"}) {
    const auto target = run.settings.find(key);
    if (target == run.settings.end()) continue;
    if (const auto value = parse_number<double>(target->second)) run.target = *value;
    run.target_is_loss = key == "training.target_loss";
  }
}

void name_used(std::vector<ReportRun>& runs) {
  std::set<std::string> set;
  for (const ReportRun& run : runs)
    for (const auto& [key, value] : run.settings) set.insert(key);
  for (ReportRun& run : runs)
    for (const auto& [key, value] : run.used)
      if (set.contains(key)) run.settings.try_emplace(key, value);
}

void name_contents(std::vector<ReportRun>& runs) {
  std::map<std::string, std::map<std::string, std::string>> names;  // by key and content
  std::map<std::string, std::map<std::string, int>> uses;           // by key and name
  for (ReportRun& run : runs) {
    for (const auto& [key, content] : run.contents) {
      const auto setting = run.settings.find(key);
      if (setting == run.settings.end()) continue;
      const auto [known, fresh] = names[key].try_emplace(content, setting->second);
      if (fresh) {
        const int number = ++uses[key][setting->second];
        if (number > 1) known->second += " (" + std::to_string(number) + ")";
      }
      setting->second = known->second;
    }
  }
}

}  // namespace

Status take_identity(ReportRun& run, const std::string& path) {
  auto settings = training::values_in(path);
  if (!settings) return settings.error();
  run.settings = std::move(*settings);
  const Experiment experiment = experiment_of(run, path);
  drop_without_effect(run, experiment);
  spell_own_values(run);
  take_precisions(run, experiment);
  take_used(run, experiment);
  take_contents(run);
  take_target(run);
  return Done{};
}

void name_alike(std::vector<ReportRun>& runs) {
  name_used(runs);
  name_contents(runs);
}

}  // namespace starling::lab
