// Every subcommand, in the order in which help lists them.
#include "cli/commands/commands.h"

namespace starling::cli {
std::vector<Command> all_commands() {
  return {
      peer_command(),
      members_command(),
      status_command(),
      top_command(),
      leave_command(),
      pause_command(),
      resume_command(),
      log_level_command(),
      swarm_command(),
      simulate_command(),
      sweep_command(),
      report_command(),
      hunt_command(),
      topology_list_command(),
      topology_show_command(),
      topology_compare_command(),
      topology_set_command(),
      model_list_command(),
      model_show_command(),
      data_list_command(),
      data_info_command(),
      data_fetch_command(),
      evaluate_command(),
      predict_command(),
      export_command(),
      key_new_command(),
      doctor_command(),
      completion_command(),
      man_command(),
      tables_command()};
}

}  // namespace starling::cli
