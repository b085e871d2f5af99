#include "cli/commands/run/idle_settings.h"

#include <algorithm>
#include <cstdlib>

#include "cli/shell/output.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::cli {
namespace {

using training::Experiment;
using training::Setting;

// "--clip", "--set gossip.clip", "STARLING_CLIP" or "run.toml: gossip.clip"; empty if nothing has set it.
std::string source_of(const Setting& setting, const Arguments& arguments, const Experiment& experiment,
                      const std::optional<std::string>& file) {
  if (arguments.has(setting.flag)) return setting.flag;
  const auto names_it = [&](const std::string& text) { return text.starts_with(setting.key + "="); };
  if (std::ranges::any_of(arguments.all("--set"), names_it)) return "--set " + setting.key;
  const char* variable = std::getenv(setting.environment.c_str());
  if (variable != nullptr && *variable != '\0') return setting.environment;
  if (file && setting.get(experiment) != setting.get(Experiment{})) return *file + ": " + setting.key;
  return "";
}

}  // namespace

void warn_of_idle_settings(const Arguments& arguments, const Experiment& experiment,
                           const std::optional<std::string>& file) {
  const bool joins = arguments.has("--join");  // then the swarm decides about the shared settings
  for (const Setting& setting : training::settings()) {
    if (joins && setting.shared) continue;
    const std::string lack = training::lack_of_effect(setting, experiment);
    if (lack.empty()) continue;
    const std::string source = source_of(setting, arguments, experiment, file);
    if (!source.empty()) warn(source + " " + lack);
  }
}

void warn_of_idle_settings(const Arguments& arguments, const training::Sweep& sweep,
                           const std::string& file) {
  if (sweep.points.empty()) return;
  const Experiment& first = sweep.points.front().experiment;
  for (const Setting& setting : training::settings()) {
    const std::string lack = training::lack_of_effect(setting, first);
    const auto is_idle = [&](const training::SweepPoint& point) {
      return !training::lack_of_effect(setting, point.experiment).empty();
    };
    if (lack.empty() || !std::ranges::all_of(sweep.points, is_idle)) continue;
    const bool has_list =
        std::ranges::any_of(sweep.axes, [&](const auto& axis) { return axis.key == setting.key; });
    const std::string source =
        has_list ? file + ": the list of " + setting.key : source_of(setting, arguments, first, file);
    if (!source.empty()) warn(source + " " + lack);
  }
}

}  // namespace starling::cli
