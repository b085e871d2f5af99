// A setting: a key of a file, the environment and the command line, with its parser.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

// The values of another setting with which a setting has an effect. Default: it always has one.
struct Effect {
  std::string key{};                               // the other setting: "gossip.rule"
  std::vector<std::string> values{};               // "clipped"; empty: any value that is set
  std::function<bool(const Experiment&)> holds{};  // empty: always
};

// A setting's names and its description. Files, the environment, the flags, help, completion and the manual
// all use them, so a key has one name, one parser, one default and one help line, and shells complete the
// values that the parser accepts.
struct SettingText {
  enum class Form : std::uint8_t { text, number, boolean, array };  // how a TOML file writes the value

  std::string key;          // in the file: "training.batch_size"
  std::string flag;         // "--batch-size"
  std::string environment;  // "STARLING_BATCH_SIZE"
  std::string placeholder;  // "N", "NAME", "RATE"; empty: a switch, whose flag without a value means "true"
  std::string alone{};      // what the flag means without a value; empty: it needs one, or is a switch
  std::string help;
  Form form = Form::text;
  std::vector<std::string> choices{};  // all values that are accepted, where these are names
};

// A setting of `Options`.
template <class Options>
struct SettingOf : SettingText {
  std::function<Status(Options&, std::string_view)> set;  // the Error does not repeat the key
};

// A setting of an experiment. The table of all is in settings.cc; node/peer/settings.cc has a peer's own.
struct Setting : SettingOf<Experiment> {
  bool shared = false;  // the same for the whole run, so the manifest has it if it is not the default
  Effect effect{};
  std::function<std::optional<std::string>(const Experiment&)> get;  // nullopt: unset
  std::function<void(Experiment&)> reset;                            // back to the default
};

}  // namespace starling::training
