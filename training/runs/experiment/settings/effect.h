// Which settings have an effect in an experiment: the clipping of the rule clipped has none under pairwise.
#pragma once

#include <string_view>

#include "training/runs/experiment/experiment.h"

namespace starling::training {

// Whether this setting can change the results. True for keys that are not settings, such as a fault's.
bool has_effect(const Experiment& experiment, std::string_view key);

}  // namespace starling::training
