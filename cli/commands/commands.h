// The subcommands of `starling`: plain values with path, flags and the function that runs them. A source file
// of this folder defines one command or a few that belong together.
#pragma once

#include "cli/shell/arguments.h"

namespace starling::cli {

Command peer_command();
std::vector<Command> query_commands();  // members, status
Command top_command();
std::vector<Command> order_commands();  // leave, pause, resume, log-level
Command swarm_command();
Command simulate_command();
Command sweep_command();
Command report_command();
Command plot_command();
Command hunt_command();
std::vector<Command> topology_commands();  // topology list, show
Command topology_compare_command();
Command topology_set_command();
std::vector<Command> rule_commands();   // rule list, show
std::vector<Command> model_commands();  // model list, show
Command plan_command();
std::vector<Command> data_commands();       // data list, info, fetch
std::vector<Command> tokenizer_commands();  // tokenizer train, show
Command generate_command();
std::vector<Command> saved_model_commands();  // evaluate, predict
Command export_command();
Command key_new_command();
Command key_rotate_command();
Command doctor_command();

// All of them, in the order in which help lists them.
std::vector<Command> all_commands();

}  // namespace starling::cli
