// starling man: prints the manual page.
#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/shell/completion.h"

namespace starling::cli {
namespace {

int run(const Arguments& /*arguments*/) {
  std::fputs(manual_page(all_commands(), shared_flags()).c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command man_command() {
  Command command{"man", "this program's manual page, as roff"};
  command.run = run;
  command.example = "starling man | man -l -";
  return command;
}

}  // namespace starling::cli
