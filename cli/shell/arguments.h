// Parses the command line for commands that are described as values, and runs the command. The .cc file is
// the only code that uses the parsing library. A wrong command line gives one line on standard error that
// says what is wrong and where to find help, and exit code 2.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell/command.h"

namespace starling::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitRunFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInterrupted = 130;  // by the user: 128 + SIGINT

// The values that the user gave, by flag ("--peers") or positional ("NAME").
class Arguments {
 public:
  explicit Arguments(std::string command) : command_(std::move(command)) {}

  const std::string& command() const { return command_; }  // "topology show"
  bool has(const std::string& name) const { return values_.contains(name); }
  std::optional<std::string> get(const std::string& name) const;  // the first value
  const std::vector<std::string>& all(const std::string& name) const;

  // Where the value comes from, for messages: the flag itself, "STARLING_HTTP", or "north.toml, line 3:
  // daemon.http".
  std::string place(const std::string& name) const;

  // REQUIRES: `values` is not empty.
  void set(const std::string& name, std::vector<std::string> values, const std::string& place = "");

 private:
  std::string command_;
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, std::string> places_;  // of values that are not from flags
};

// Parses, runs the command, and returns its exit code. Handles --help, `help COMMAND`, `--help all`,
// `--help-all` and --version itself.
int run_command_line(int argc, const char* const* argv, const std::vector<Command>& commands);

// Reports wrong input on standard error: "starling swarm: MESSAGE". If the message begins with a flag, the
// flag is replaced by its place. Returns kExitBadInput.
int refuse(const Arguments& arguments, const std::string& message);
inline int refuse(const Arguments& arguments, const Error& error) { return refuse(arguments, error.message); }
// The same for a run that failed. Returns kExitRunFailed.
int fail(const Arguments& arguments, const std::string& message);
inline int fail(const Arguments& arguments, const Error& error) { return fail(arguments, error.message); }
// Writes a command's result to standard output. Returns kExitDone.
int print_out(const std::string& text);

}  // namespace starling::cli
