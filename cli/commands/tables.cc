// starling tables: the commands' own tables as JSON, for tests and tools.
#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/shell/json.h"
#include "cli/commands/json.h"

namespace starling::cli {
namespace {

int run(const Arguments& /*arguments*/) {
  std::fputs(tables_json(all_commands(), shared_flags()).c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command tables_command() {
  Command command{"tables", "every command with its flags, as one JSON object"};
  command.run = run;
  command.example = "starling tables";
  command.hidden = true;
  return command;
}

}  // namespace starling::cli
