// starling: one program with subcommands.
#include <malloc.h>

#include "cli/commands/commands.h"
#include "cli/shell/arguments.h"
#include "cli/shell/log.h"

namespace {

// Freed large blocks, such as activations, are returned to the system instead of staying in the heap of the
// thread that allocated them, where other threads cannot use them. By default glibc raises both limits with
// every such block.
void keep_heaps_small() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace starling::cli;
  keep_heaps_small();
  begin_log(argc, argv);
  return run_command_line(argc, argv, all_commands());
}
