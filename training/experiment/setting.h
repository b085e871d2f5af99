// A setting: a key of the experiment file, the environment and the command line, with its parser.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

// The values of another setting with which a setting has an effect. Default: it always has one.
struct Effect {
  std::string key{};                               // the other setting: "gossip.rule"
  std::vector<std::string> values{};               // "clipped"; empty: any value that is set
  std::function<bool(const Experiment&)> holds{};  // empty: always
};

// The experiment file, the environment and the flags all use this type, so a key has one name, one parser,
// one default and one help line, and shells complete the same values that the parser accepts. The table of
// all settings is in settings.cc.
struct Setting {
  enum class Form : std::uint8_t { text, number, boolean, array };  // how a TOML file writes the value

  std::string key;          // in the file: "training.batch_size"
  std::string flag;         // "--batch-size"
  std::string environment;  // "STARLING_BATCH_SIZE"
  std::string placeholder;  // "N", "NAME", "RATE"; empty: a switch, whose flag without a value means "true"
  std::string alone{};      // what the flag means without a value; empty: it needs one, or is a switch
  std::string help;
  Form form = Form::text;
  std::vector<std::string> choices{};  // all values that are accepted, where these are names
  bool shared = false;                 // the same for the whole run, so it travels in the manifest,
  bool told_by_default = false;        // even while it has its default
  Effect effect{};
  std::function<Status(Experiment&, std::string_view)> set;          // the Error does not repeat the key
  std::function<std::optional<std::string>(const Experiment&)> get;  // nullopt: unset
  std::function<void(Experiment&)> reset;                            // back to the default
};

}  // namespace starling::training
