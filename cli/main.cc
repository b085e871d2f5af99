// starling: one program, a subcommand a file.
#include <malloc.h>

#include "cli/shell/arguments.h"
#include "cli/commands/commands.h"
#include "cli/shell/log.h"

namespace {

// Large blocks, such as activations, go back to the system when they are freed, instead of staying in the
// heap of whichever thread asked for them, where the others' do not find room. Left alone, glibc raises both
// limits with every such block.
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
