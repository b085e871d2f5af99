// The list of commands, and the commands that print this list: completion, man and tables.
#include "cli/commands/commands.h"
#include "cli/shell/completion.h"
#include "cli/shell/json.h"

namespace starling::cli {
namespace {

Command completion_command() {
  return {"completion",
          "print a script with which a shell completes commands, flags and names",
          {{"SHELL", "bash, zsh or fish"}},
          {},
          [](const Arguments& arguments) {
            const auto script = completion_script(*arguments.get("SHELL"), all_commands());
            return script ? print_out(*script) : refuse(arguments, script.error());
          },
          "starling completion bash > ~/.local/share/bash-completion/completions/starling"};
}

Command man_command() {
  const auto run = [](const Arguments&) { return print_out(manual_page(all_commands())); };
  return {"man", "print the manual page, as roff", {}, {}, run, "starling man | man -l -"};
}

// For tests and tools.
Command tables_command() {
  const auto run = [](const Arguments&) { return print_out(tables_json(all_commands())); };
  return {"tables", "print all commands with their flags, as one JSON object", {}, {}, run, "starling tables",
          true};
}

}  // namespace

std::vector<Command> all_commands() {
  return {
      peer_command(),         members_command(),       status_command(),        top_command(),
      leave_command(),        pause_command(),         resume_command(),        log_level_command(),
      swarm_command(),        simulate_command(),      sweep_command(),         report_command(),
      hunt_command(),         topology_list_command(), topology_show_command(), topology_compare_command(),
      topology_set_command(), model_list_command(),    model_show_command(),    data_list_command(),
      data_info_command(),    data_fetch_command(),    evaluate_command(),      predict_command(),
      export_command(),       key_new_command(),       doctor_command(),        completion_command(),
      man_command(),          tables_command()};
}

}  // namespace starling::cli
