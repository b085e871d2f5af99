#include "training/runs/experiment/settings/effects.h"

#include <algorithm>

#include "base/text.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {
namespace {

// A key of a [[peer]] in a file: the table's number, from 0, and the setting.
struct OwnKey {
  std::size_t table = 0;
  const Setting* setting = nullptr;  // null: the key is none
};
OwnKey own_key(const Experiment& experiment, std::string_view key) {
  const std::string_view prefix = "peer.";
  if (!key.starts_with(prefix)) return {};
  key.remove_prefix(prefix.size());
  const auto dot = key.find('.');
  if (dot == std::string_view::npos) return {};
  const auto number = parse_number<std::size_t>(key.substr(0, dot));
  if (!number || *number < 1 || *number > experiment.own.size()) return {};
  return {*number - 1, find_own(key.substr(dot + 1))};
}

std::uint32_t some_peer(const OwnSettings& own) { return own.peers.is_all() ? 0 : own.peers.largest(); }

// Whether the setting has an effect at a peer with these settings.
bool holds(const Experiment& experiment, const Setting& setting) {
  if (!setting.effect.holds) return true;
  const Setting* const other = find_setting(setting.effect.key);
  if (holds(experiment, *other)) return setting.effect.holds(experiment);
  Experiment seen = experiment;
  other->reset(seen);
  return setting.effect.holds(seen);
}

// The same at any peer.
bool holds_somewhere(const Experiment& experiment, const Setting& setting,
                     bool (*at)(const Experiment&, const Setting&)) {
  return at(experiment, setting) || std::ranges::any_of(experiment.own, [&](const OwnSettings& own) {
           return at(of_peer(experiment, some_peer(own)), setting);
         });
}

// Processes always copy the first one's parameters.
bool holds_really(const Experiment& experiment, const Setting& setting) {
  return setting.key != "start" && holds(experiment, setting);
}

bool holds_virtually(const Experiment& experiment, const Setting& setting) {
  if (setting.key == "training.device") return false;
  if (setting.key == "training.recompute" && experiment.training.devices.size() < 2) return false;
  return holds(experiment, setting);
}

bool has_effect_as(const Experiment& experiment, std::string_view key,
                   bool (*at)(const Experiment&, const Setting&)) {
  if (const OwnKey own = own_key(experiment, key); own.setting != nullptr)
    return at(of_peer(experiment, some_peer(experiment.own[own.table])), *own.setting);
  const Setting* const setting = find_setting(key);
  return setting == nullptr || holds_somewhere(experiment, *setting, at);
}

}  // namespace

bool has_effect(const Experiment& experiment, std::string_view key) {
  return has_effect_as(experiment, key, holds_really);
}

bool has_virtual_effect(const Experiment& experiment, std::string_view key) {
  return has_effect_as(experiment, key, holds_virtually);
}

std::map<std::string, std::string> used_values(const Experiment& experiment) {
  std::map<std::string, std::string> used;
  const auto add = [&](const char* key, bool unset, const std::string& value) {
    if (unset && has_effect(experiment, key)) used[key] = value;
  };
  const OptimizerSettings& optimizer = experiment.optimizer;
  const GossipSettings& gossip = experiment.gossip;
  add("training.learning_rate", !optimizer.learning_rate, format_number(resolved_learning_rate(experiment)));
  add("training.beta1", !optimizer.beta1, format_number(optimizer.momentum));
  if (experiment.end.epochs)
    add("training.step_epochs", !experiment.schedule.step_epochs, format_number(*experiment.end.epochs / 3));
  add("gossip.every", !gossip.every, format_pace(resolved_every(experiment)));
  add("gossip.outer_momentum", !gossip.outer_momentum, format_number(resolved_outer_momentum(experiment)));
  add("gossip.consensus_rate", !gossip.consensus_rate, format_number(resolved_consensus_rate(experiment)));
  add("pipeline.speeds", experiment.pipeline.speeds.empty(),
      joined(std::vector<std::string>(experiment.training.devices.size(), "1"), ","));
  add("pipeline.micro_batches", experiment.pipeline.micro_batches == 0,
      std::to_string(resolved_micro_batches(experiment, experiment.training.devices.size())));
  return used;
}

Experiment without_spelled_defaults(const Experiment& experiment) {
  Experiment its = experiment;
  for (const char* const key : {"training.beta1", "training.step_epochs", "gossip.every",
                                "gossip.outer_momentum", "gossip.consensus_rate"}) {
    const Setting* const setting = find_setting(key);
    Experiment without = its;
    setting->reset(without);
    const auto used = used_values(without);
    const auto found = used.find(key);
    if (found != used.end() && setting->get(its) == found->second) its = std::move(without);
  }
  return its;
}

std::map<std::string, std::string> used_virtual_values(const Experiment& experiment) {
  std::map<std::string, std::string> used = used_values(experiment);
  const NetworkSettings& network = experiment.network;
  if (!experiment.looks) used["looks"] = std::to_string(resolved_looks(experiment));
  if (experiment.training.pace.count() == 0) used["training.pace"] = format_duration(kVirtualStep);
  if (!network.latency) used["network.latency"] = format_duration(kVirtualLatency);
  const double bandwidth = network.bandwidth.value_or(kVirtualBandwidth);
  if (!network.bandwidth) used["network.bandwidth"] = format_rate(bandwidth);
  if (!network.port) used["network.port"] = format_rate(bandwidth);
  return used;
}

Experiment as_simulated(const Experiment& experiment) {
  Experiment its = experiment;
  its.name = "";
  its.seed = 0;
  for (const Setting& setting : settings())
    if (!has_virtual_effect(experiment, setting.key)) setting.reset(its);
  for (const auto& [key, value] : used_virtual_values(experiment))
    if (const Setting* setting = find_setting(key)) (void)setting->set(its, value);
  for (std::size_t i = 0; i < its.own.size(); ++i) {
    auto& values = its.own[i].values;
    std::erase_if(values, [&](const auto& value) {
      const Setting* const setting = find_setting(value.first);
      return setting == nullptr || !holds_virtually(of_peer(experiment, some_peer(its.own[i])), *setting);
    });
    for (auto& [key, value] : values) {  // one spelling of each value
      Experiment scratch;
      const Setting* const setting = find_setting(key);
      if (setting->set(scratch, value)) value = setting->get(scratch).value_or(value);
    }
  }
  return its;
}

std::string lack_of_effect(const Setting& setting, const Experiment& experiment) {
  const Effect& effect = setting.effect;
  if (!effect.holds || effect.holds(experiment)) return "";
  constexpr std::size_t kListed = 3;
  const Setting* other = find_setting(effect.key);
  const auto value = other->get(experiment);
  if (!value) return "has no effect without " + other->flag;
  std::string text = "has no effect with " + other->flag + " " + *value;
  if (!effect.values.empty() && effect.values.size() <= kListed)
    text += "; it needs " + other->flag + " " + one_of(effect.values);
  return text;
}

}  // namespace starling::training
