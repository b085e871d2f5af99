// starling completion: prints a completion script for a shell.
#include "cli/shell/completion.h"

#include <cstdio>

#include "cli/commands/commands.h"

namespace starling::cli {
namespace {

int run(const Arguments& arguments) {
  const auto script = completion_script(*arguments.get("SHELL"), all_commands(), shared_flags());
  if (!script) return refuse(arguments, script.error().message);
  std::fputs(script->c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command completion_command() {
  return {"completion",
          "a script with which your shell completes commands, flags and names",
          {{"SHELL", "bash, zsh or fish"}},
          {},
          run,
          "starling completion bash > ~/.local/share/bash-completion/completions/starling"};
}

}  // namespace starling::cli
