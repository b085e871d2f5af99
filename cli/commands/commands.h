// The subcommands of `starling`: plain values with path, flags and the function that runs them. A source file
// of this folder defines one command or a few that belong together.
#pragma once

#include "cli/shell/arguments.h"

namespace starling::cli {

Command peer_command();
Command members_command();
Command status_command();
Command leave_command();
Command pause_command();
Command resume_command();
Command log_level_command();
Command top_command();
Command swarm_command();
Command simulate_command();
Command sweep_command();
Command report_command();
Command hunt_command();
Command topology_list_command();
Command topology_show_command();
Command topology_compare_command();
Command topology_set_command();
Command model_list_command();
Command model_show_command();
Command data_list_command();
Command data_info_command();
Command data_fetch_command();
Command evaluate_command();
Command key_new_command();
Command predict_command();
Command export_command();
Command doctor_command();

// All of them, in the order in which help lists them.
std::vector<Command> all_commands();

}  // namespace starling::cli
