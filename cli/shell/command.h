// A command as a value: its name, its flags and what runs it. The command line is parsed from these
// (cli/shell/arguments.h), and help, manual page and completions are written from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace starling::cli {

class Arguments;

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

struct Command {
  std::string path;  // "swarm", "topology show"
  std::string summary;
  std::vector<Positional> positionals = {};
  std::vector<Flag> flags = {};
  std::function<int(const Arguments&)> run = {};  // returns the exit code
  std::string example = {};  // what somebody would really type: a line or two, each beginning with "starling"
  bool hidden = false;       // for our own tools, not in the list of commands
};

}  // namespace starling::cli
