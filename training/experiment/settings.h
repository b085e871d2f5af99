// The table of everything that can be set, and functions on it: finding a key, setting a value, the settings
// of one peer, the environment, and the list of shared settings that a joiner receives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

// One thing that can be set in an experiment. The experiment file, the environment and the flags all use
// this type, so a key has one name, one parser, one default and one help line, and shells complete the same
// values that the parser accepts.
struct Setting {
  enum class Form : std::uint8_t { text, number, boolean, array };  // how a TOML file writes the value

  std::string key;          // in the file: "training.batch_size"
  std::string flag;         // "--batch-size"
  std::string environment;  // "STARLING_BATCH_SIZE"
  std::string placeholder;  // "N", "NAME", "RATE"; empty: a switch, whose flag without a value means "true"
  std::string help;
  Form form = Form::text;
  std::vector<std::string> choices{};  // all values that are accepted, where these are names
  bool shared = false;                 // the same for the whole run, so it travels in the manifest,
  bool told_by_default = false;        // even while it has its default
  std::function<Status(Experiment&, std::string_view)> set;          // the Error does not repeat the key
  std::function<std::optional<std::string>(const Experiment&)> get;  // nullopt: unset
  std::function<void(Experiment&)> reset;                            // back to the default
};

// In the order of the experiment file.
const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // null: unknown

// Sets one key. The Error for an unknown key or a bad value begins with `place` ("experiment.toml, line 3",
// "--set", "STARLING_SEED"), names the key and says what is accepted.
Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place);

// Whether a [[peer]] may have this setting: it belongs to [training] and is not shared.
bool is_own_setting(const Setting& setting);
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

// The settings that all peers of a run share, as a manifest carries them, with the pace resolved.
// apply_shared() is the inverse and checks like a file: it resets every shared setting that is not listed to
// its default. An Error changes nothing.
std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& experiment);
Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace starling::training
