// Commands described as values, and the command line parsed for them: the only code that knows the parsing
// library. Whatever is wrong with a command line is one line on standard error that says what, and where help
// is; exit code 2.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace starling::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitRunFailed = 1;
inline constexpr int kExitBadInput = 2;

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
