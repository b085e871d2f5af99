// Which settings change the results of a run, and which values a run uses where they are not set. Reports and
// sweeps decide by it which runs are of one kind; the manifest leaves out what has no effect.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/setting.h"

namespace starling::training {

// Whether this setting can change the results: the clipping of the rule clipped has no effect under pairwise.
// Also of a [[peer]]: "peer.1.workers". A setting of each peer has an effect if it has one at a peer. True
// for keys that are not settings, such as a fault's.
bool has_effect(const Experiment& experiment, std::string_view key);

// The same in virtual time, where the device is always the host's processor, and recomputation takes time
// only in stages. Only there peers begin together, so only there `start` has an effect.
bool has_virtual_effect(const Experiment& experiment, std::string_view key);

// The values that a run uses for settings that are not set, or set to 0 or auto, if these can be set, too:
// "gossip.every" is "8 steps". Only settings with an effect.
std::map<std::string, std::string> used_values(const Experiment& experiment);
// The experiment without settings of a run that say what is used without them: --beta1 0.9 beside momentum
// 0.9. A manifest has neither.
Experiment without_spelled_defaults(const Experiment& experiment);
// The same values in virtual time.
inline constexpr Duration kVirtualStep = std::chrono::milliseconds(20);
inline constexpr Duration kVirtualLatency = std::chrono::microseconds(100);
inline constexpr double kVirtualBandwidth = 1e9;  // bits per second
std::map<std::string, std::string> used_virtual_values(const Experiment& experiment);

// An experiment that equal simulations have in common, apart from their seeds: settings without effect have
// their defaults, those that are not set the values that are used, and it has no name and the seed 0.
Experiment as_simulated(const Experiment& experiment);

// "has no effect with --rule pairwise; it needs --rule clipped", or empty if the setting has an effect in
// this experiment.
std::string lack_of_effect(const Setting& setting, const Experiment& experiment);

}  // namespace starling::training
