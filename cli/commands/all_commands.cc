// The list of commands, and the commands that print this list: completion, man and tables.
#include "base/program.h"
#include "cli/commands/commands.h"
#include "cli/shell/help.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using training::Json;

Json flags_json(const std::vector<Flag>& flags) {
  Json list = Json::array();
  for (const Flag& flag : flags) {
    list.push_back({{"name", flag.name},
                    {"placeholder", flag.placeholder},
                    {"help", flag.help},
                    {"section", flag.section},
                    {"repeatable", flag.repeatable},
                    {"common", flag.common},
                    {"hidden", flag.hidden},
                    {"environment", flag.environment},
                    {"key", flag.key}});
  }
  return list;
}

// {"commands": [{"path": ..., "positionals": [...], "flags": [...], "example": ...}, ...], "shared": [...]}
std::string tables_json(const std::vector<Command>& commands) {
  Json list = Json::array();
  for (const Command& command : commands) {
    Json positionals = Json::array();
    for (const Positional& positional : command.positionals) {
      positionals.push_back({{"name", positional.name},
                             {"help", positional.help},
                             {"required", positional.required},
                             {"repeatable", positional.repeatable}});
    }
    list.push_back({{"path", command.path},
                    {"summary", command.summary},
                    {"positionals", std::move(positionals)},
                    {"flags", flags_json(command.flags)},
                    {"example", command.example},
                    {"hidden", command.hidden}});
  }
  return training::to_line({{"commands", std::move(list)}, {"shared", flags_json(shared_flags())}});
}

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

// Called when packages are built. Hidden, as the list of commands has 40 lines at most.
Command man_command() {
  const auto run = [](const Arguments&) { return print_out(manual_page(all_commands())); };
  return {"man", "print the manual page, as roff", {}, {}, run, "starling man | man -l -", true};
}

// The same as --version, which the lists of flags show.
Command version_command() {
  const auto run = [](const Arguments&) { return print_out("starling " + version() + "\n"); };
  return {"version", "print the version", {}, {}, run, "starling version", true};
}

// For tests and tools.
Command tables_command() {
  const auto run = [](const Arguments&) { return print_out(tables_json(all_commands())); };
  return {"tables", "print all commands with their flags, as one JSON object", {}, {}, run, "starling tables",
          true};
}

}  // namespace

std::vector<Command> all_commands() {
  std::vector<Command> all = {peer_command()};
  const auto add = [&all](const std::vector<Command>& commands) {
    all.insert(all.end(), commands.begin(), commands.end());
  };
  add(query_commands());
  add({top_command()});
  add(order_commands());
  add({swarm_command(), simulate_command(), sweep_command(), report_command(), plot_command(),
       hunt_command()});
  add(topology_commands());
  add({topology_compare_command(), topology_set_command()});
  add(rule_commands());
  add(model_commands());
  add({plan_command()});
  add(data_commands());
  add(tokenizer_commands());
  add(saved_model_commands());
  add({export_command(), generate_command()});
  add({key_new_command(), key_rotate_command(), doctor_command(), completion_command(), man_command(),
       version_command(), tables_command()});
  return all;
}

}  // namespace starling::cli
