// Commands described as values, and the command line parsed for them: the only code that knows the parsing
// library. Whatever is wrong with a command line is one line on standard error that says what, and where help
// is; exit code 2.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitRunFailed = 1;
inline constexpr int kExitBadInput = 2;

struct Flag {
  std::string name;         // "--peers"
  std::string placeholder;  // "N"; empty: a switch
  std::string help;
  bool repeatable = false;
  bool hidden = false;  // for our own processes, not in --help
  std::string section = {};  // the heading under which help lists it; empty: the command's own
  bool common = false;       // where a command has more flags than fit a screen: stands in the short help too
  std::string environment = {};  // the variable that says the same ("STARLING_HTTP"); empty: there is none
  std::string key = {};          // and the key of an experiment's file ("daemon.http")
};

struct Positional {
  std::string name;  // "NAME"
  std::string help;
  bool required = true;
  bool repeatable = false;
};

// What the user gave, by flag ("--peers") or positional ("NAME").
class Arguments {
 public:
  explicit Arguments(std::string command) : command_(std::move(command)) {}

  const std::string& command() const { return command_; }  // "topology show"
  bool has(const std::string& name) const { return values_.contains(name); }
  std::optional<std::string> get(const std::string& name) const;
  const std::vector<std::string>& all(const std::string& name) const;

  // Where it was said, for a sentence about it: the flag itself, "STARLING_HTTP", or "north.toml, line 3: daemon.http".
  std::string place(const std::string& name) const;

  void set(const std::string& name, std::vector<std::string> values, const std::string& place = "");

 private:
  std::string command_;
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, std::string> places_;  // of those that are no flags
};

struct Command {
  std::string path;  // "swarm", "topology show"
  std::string summary;
  std::vector<Positional> positionals = {};
  std::vector<Flag> flags = {};
  std::function<int(const Arguments&)> run = {};  // returns the exit code
  std::string example = {};  // what somebody would really type: a line or two, each beginning with "starling"
  bool hidden = false;       // for our own tools, not in the list of commands
};

// The flags that every command has besides its own; they stand in no command's table.
const std::vector<Flag>& shared_flags();

// Parses, runs the command that is meant, and returns its exit code. Handles --help (and `help COMMAND`, `--help all`,
// `--help-all`) and --version itself.
int run_command_line(int argc, const char* const* argv, const std::vector<Command>& commands);

// Says on standard error what was wrong with what the user gave: "starling swarm: MESSAGE", a flag that begins it by its
// place. Returns kExitBadInput.
int refuse(const Arguments& arguments, const std::string& message);
// The same for a run that failed. Returns kExitRunFailed.
int fail(const Arguments& arguments, const std::string& message);

}  // namespace starling::cli
