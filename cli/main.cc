// starling: one program with subcommands.
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>

#include "cli/commands/commands.h"
#include "cli/shell/arguments.h"
#include "cli/shell/log.h"

using namespace starling::cli;

namespace {

// Freed large blocks, such as activations, are returned to the system instead of staying in the heap of the
// thread that allocated them, where other threads cannot use them. By default glibc raises both limits with
// every such block. Under a limit of the address space all threads share one heap: each other one reserves
// 128 MB when it begins, and a library that gets nothing then may crash.
void keep_heaps_small() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
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

// Whether a thread can be started now.
bool can_start_thread() {
  try {
    std::thread([] {}).join();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// Whether the program ends because memory is lacking: an allocation failed outside of the command's own
// thread, which handles it, or a thread could not be started, also if others then had to be destroyed.
bool lacks_memory() {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) return !can_start_thread();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& error) {
    return error.code() == std::errc::resource_unavailable_try_again;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void end_program() {
  static std::atomic_flag begun;
  if (begun.test_and_set()) ::pause();  // another thread ends the program already
  if (!lacks_memory()) std::abort();
  constexpr std::string_view kText =
      "starling: error: this needs more memory than the machine, or the limit of `ulimit -v`, has left\n";
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&reader, 1, 0) == 1) std::ignore = ::write(STDERR_FILENO, kText.data(), kText.size());
  std::_Exit(kExitRunFailed);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_program);
  keep_heaps_small();
  begin_log(argc, argv);
  return after_output(run_command_line(argc, argv, all_commands()));
}
