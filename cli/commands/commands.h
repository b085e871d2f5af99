// The subcommands of `starling`. Each lives in a file of its name and is a plain value: what it is called,
// which flags it takes, and the function that runs it. all_commands() lists them; cli/arguments.h parses for them.
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
Command completion_command();
Command man_command();
Command tables_command();

std::vector<Command> all_commands();

}  // namespace starling::cli
