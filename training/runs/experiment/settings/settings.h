// The table of everything that can be set, and functions on it: finding a key, setting a value, the settings
// of one peer, the environment, and the list of shared settings that a joiner receives.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/setting.h"

namespace starling::training {

// In the order of the experiment file.
const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // null: unknown

// "unknown key 'training.batchsize'; did you mean batch_size? [training] accepts batch_size, ...". `known`
// holds dotted keys. Those of the same table are listed, or the tables if that table does not exist.
std::string unknown_key(std::string_view key, const std::vector<std::string>& known);

// Sets one key. The Error for an unknown key or a bad value begins with `place` ("experiment.toml, line 3",
// "--set", "STARLING_SEED"), names the key and says what is accepted.
Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place);

// Whether a [[peer]] may have this setting: it belongs to [training] and is not shared.
bool is_own_setting(const Setting& setting);
// The setting that a key of a [[peer]] names, such as workers: an own one, or one of [training]; null: none.
const Setting* find_own(std::string_view key);
// Sets one key of a [[peer]]: `number`, or an own setting without its table's name, such as workers. The
// Error begins with the key.
Status set_own(OwnSettings& own, const std::string& key, const std::string& value);
// The keys that set_own() accepts besides `number`, for messages: "device, devices and workers".
std::string own_setting_names();
// The experiment as this peer has it: its own settings replace the run's, and `own` is empty.
Experiment of_peer(const Experiment& experiment, std::uint32_t peer);

// Reads STARLING_* variables over `experiment`. `lookup` is std::getenv in the program. Empty variables and
// unknown STARLING_ names are ignored. (data.source is STARLING_DATA_SOURCE: STARLING_DATA is the folder of
// data sets.)
Status read_environment(Experiment& experiment, const std::function<const char*(const char*)>& lookup);

// Makes model.name and model.layers agree after one source of settings (a file, the environment, a command
// line) was read over `experiment`. Layers without a name get the name "custom". A name without layers drops
// the layers of an earlier source. The Error is check_model()'s.
Status settle_model(Experiment& experiment, bool name_given, bool layers_given);
// Whether a network with its own layers may have its name.
Status check_model(const Experiment& experiment);

// The settings that all peers of a run share, as a manifest carries them: those that have an effect and
// differ from their default, which is the same in all programs with one number of the protocol; and the
// learning rate, whose default depends on the first peer's workers.
// apply_shared() is the inverse and checks like a file: it resets every shared setting that is not listed to
// its default. An Error changes nothing.
std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& experiment);
Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace starling::training
