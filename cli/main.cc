// starling: one program with subcommands.
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/shell/arguments.h"
#include "cli/shell/log.h"

using namespace starling::cli;

namespace {

// Freed large blocks, such as activations, are returned to the system instead of staying in the heap of the
// thread that allocated them, where other threads cannot use them. By default glibc raises both limits with
// every such block.
void keep_heaps_small() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

// The exit code of a command: another one if its output was lost. A reader that wants no more, as `head`,
// loses nothing.
int after_output(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  pollfd reader{STDOUT_FILENO, 0, 0};
  if (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) return exit_code;
  tell(Told::complaint, "starling: standard output cannot be written; the output is incomplete");
  return exit_code == kExitDone ? kExitRunFailed : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  keep_heaps_small();
  begin_log(argc, argv);
  return after_output(run_command_line(argc, argv, all_commands()));
}
