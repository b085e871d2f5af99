// Commands as values: path, flags, and the function that runs them. The parser (cli/shell/arguments.h), help,
// the manual page and the completion scripts are all derived from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace starling::cli {

class Arguments;

struct Flag {
  std::string name;              // "--peers"
  std::string placeholder = {};  // "N"; empty for a switch
  std::string help = {};
  bool repeatable = false;
  bool hidden = false;           // for processes that Starling starts; not in help
  std::string section = {};      // its heading in help; empty: none
  bool common = false;           // shown by the short help of a command with many flags
  std::string environment = {};  // the variable with the same meaning, "STARLING_HTTP"; empty: none
  std::string key = {};          // its key in an experiment file, "daemon.http"; empty: none
  // Neither a variable nor a file sets it, because it names a command to run or is for a launcher.
  bool only_on_the_command_line = false;
  bool required = false;
  // The value that the flag stands for if none of `values` follows it; empty: it needs a value.
  std::string alone = {};
  std::vector<std::string> values = {};
  std::string formerly = {};  // an earlier name, which is accepted with a warning; empty: none
};

inline const Flag kJsonFlag{"--json", "", "print one JSON object"};

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
  std::string example = {};                       // one or two lines that begin with "starling"
  bool hidden = false;                            // for tests and tools; not in help
};

// The flags that every command accepts; they are not in Command::flags.
const std::vector<Flag>& shared_flags();

// The flags of the command and the shared ones, without hidden ones.
std::vector<Flag> visible_flags(const Command& command);

// nullptr if no command has this path.
const Command* find_command(const std::vector<Command>& commands, const std::string& path);

// The words that may follow `starling`, or `starling GROUP`; without hidden commands, each word once.
std::vector<std::string> next_words(const std::vector<Command>& commands, const std::string& group);

}  // namespace starling::cli
