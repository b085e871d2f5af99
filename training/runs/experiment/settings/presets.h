// Presets: settings with which a named network for text learns without others. They apply below every source
// of settings (file, variables, --set, flags), and only if none of these chooses training.optimizer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "training/runs/experiment/experiment.h"

namespace starling::training {

using Preset = std::vector<std::pair<std::string_view, std::string>>;  // keys and values

// For what the sources have chosen in `probe`, whose optimizer.name was empty before they were read; empty:
// no preset applies. The schedule is cosine if the run ends by epochs or steps (`default_end`: a run that
// sets no end does, too), and the warm-up at most a tenth of the steps.
Preset preset_for(const Experiment& probe, bool default_end);

// Sets the values of the preset.
void set_preset(const Preset& preset, Experiment& experiment);

// "--optimizer adamw --learning-rate 0.003": the same as flags.
std::string flags_of(const Preset& preset);

}  // namespace starling::training
