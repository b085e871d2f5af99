// starling: one program, a subcommand a file.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/output.h"

int main(int argc, char** argv) {
  using namespace starling::cli;
  log_to_standard_error();
  return run_command_line(
      argc, argv,
      {peer_command(), members_command(), status_command(), leave_command(), swarm_command(),
       simulate_command(), hunt_command(), topology_list_command(), topology_show_command(),
       topology_compare_command(), topology_set_command(), model_list_command(), model_show_command(),
       data_list_command(), data_info_command(), evaluate_command()});
}
