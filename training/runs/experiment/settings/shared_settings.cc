// shared_settings() and apply_shared() of settings.h: what a manifest carries.
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {

std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& whole) {
  const Experiment experiment = without_spelled_defaults(whole);
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& setting : settings()) {
    if (!setting.shared || !has_effect(experiment, setting.key)) continue;
    if (setting.key == "training.learning_rate") {  // its default depends on the first peer's workers
      values.emplace_back(setting.key, format_number(resolved_learning_rate(experiment)));
      continue;
    }
    auto value = setting.get(experiment);
    if (value && value != setting.get(Experiment{})) values.emplace_back(setting.key, std::move(*value));
  }
  return values;
}

Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values) {
  static const std::string kPlace = "the swarm's settings";
  Experiment joined = experiment;
  for (const auto& setting : settings()) {
    if (setting.shared) setting.reset(joined);
  }
  for (const auto& [key, value] : values) {
    const Setting* setting = find_setting(key);
    // An earlier version may list a setting that is each peer's own today; it had only the default.
    if (setting != nullptr && !setting->shared && setting->get(Experiment{}) == value) continue;
    if (setting != nullptr && !setting->shared)
      return Error{kPlace + ": " + setting->key + " belongs to each peer and cannot be shared"};
    if (Status status = set_value(joined, key, value, kPlace); !status) return status;
  }
  experiment = std::move(joined);
  return Done{};
}

}  // namespace starling::training
