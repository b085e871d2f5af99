#include "training/runs/experiment/settings/presets.h"

#include <algorithm>

#include "base/check.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {
namespace {

struct Row {
  const char* model;
  const char *batch, *rate;
  std::uint64_t warmup;  // steps
};
// Small networks take larger rates. nanoGPT's settings for the sizes of gpt-char and gpt2 have these rates,
// too.
constexpr Row kRows[] = {{"gpt-tiny", "12", "0.003", 100},
                         {"llama-tiny", "12", "0.003", 100},
                         {"gpt-char", "64", "0.001", 100},
                         {"gpt2", "12", "0.0006", 2000}};

}  // namespace

Preset preset_for(const Experiment& probe, bool default_end) {
  const EndSettings& end = probe.end;
  const bool has_no_end = !end.epochs && !end.steps && !end.seconds && !has_target(end);
  for (const Row& row : kRows) {
    if (!probe.optimizer.name.empty() || probe.model.name != row.model) continue;
    Preset preset = {{"training.optimizer", "adamw"},      {"training.batch_size", row.batch},
                     {"training.learning_rate", row.rate}, {"training.beta2", "0.99"},
                     {"training.weight_decay", "0.1"},     {"training.clip_norm", "1"}};
    const std::uint64_t warmup = end.steps ? std::min(row.warmup, *end.steps / 10) : row.warmup;
    if (warmup > 0) preset.emplace_back("training.warmup", std::to_string(warmup) + " steps");
    if (end.epochs || end.steps || (has_no_end && default_end)) {
      preset.emplace_back("training.schedule", "cosine");
      preset.emplace_back("training.final_rate", "0.1");
    }
    return preset;
  }
  return {};
}

void set_preset(const Preset& preset, Experiment& experiment) {
  for (const auto& [key, value] : preset) {
    const Status set = set_value(experiment, key, value, "preset");
    STARLING_CHECK(set.ok());
  }
}

std::string flags_of(const Preset& preset) {
  std::string text;
  for (const auto& [key, value] : preset) {
    text += (text.empty() ? "" : " ") + find_setting(key)->flag + " ";
    text += value.find(' ') == value.npos ? value : "'" + value + "'";
  }
  return text;
}

}  // namespace starling::training
