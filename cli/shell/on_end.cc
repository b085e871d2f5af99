#include "cli/shell/on_end.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "cli/shell/output.h"

namespace starling::cli {
namespace {

constexpr int kLimitMilliseconds = 10'000;

std::string state_of(int exit_code) {
  if (exit_code == kExitDone) return "finished";
  return exit_code == kExitInterrupted ? "stopped" : "failed";
}

// The environment of this process, with `more` before it.
std::vector<char*> environment_with(std::vector<std::string>& more) {
  std::vector<char*> all;
  for (std::string& entry : more) all.push_back(entry.data());
  for (char** entry = environ; *entry != nullptr; ++entry) all.push_back(*entry);
  all.push_back(nullptr);
  return all;
}

// Starts the shell without the signals that this process blocks or ignores. Returns an error number, or 0.
int start_shell(std::string command, char* const* environment, pid_t& child) {
  std::string shell = "sh", option = "-c";
  char* words[] = {shell.data(), option.data(), command.data(), nullptr};
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int problem = ::posix_spawn(&child, "/bin/sh", nullptr, &attributes, words, environment);
  posix_spawnattr_destroy(&attributes);
  return problem;
}

}  // namespace

Flag on_end_flag(const std::string& section) {
  return {.name = "--on-end",
          .placeholder = "CMD",
          .help = "run this shell command at the end; it gets RUN_STATE, RUN_NAME and RUN_EXIT_CODE",
          .section = section,
          .only_on_the_command_line = true};
}

int on_end(const Arguments& arguments, const RunEnd& end) {
  const auto command = arguments.get("--on-end");
  if (!command) return end.exit_code;
  std::vector<std::string> facts = {"RUN_STATE=" + (end.state.empty() ? state_of(end.exit_code) : end.state),
                                    "RUN_NAME=" + end.name, "RUN_COMMAND=" + arguments.command(),
                                    fmt::format("RUN_EXIT_CODE={}", end.exit_code)};
  const auto environment = environment_with(facts);
  pid_t child = -1;
  if (const int problem = start_shell(*command, environment.data(), child)) {
    warn(fmt::format("--on-end: cannot run /bin/sh: {}", std::strerror(problem)));
    return end.exit_code;
  }
  pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  const bool over = ended.fd >= 0 && ::poll(&ended, 1, kLimitMilliseconds) == 1;
  if (ended.fd >= 0) ::close(ended.fd);
  int status = 0;
  if (!over) {
    warn("--on-end: the command still runs after 10 s; it is not waited for");
  } else if (::waitpid(child, &status, 0) == child && status != 0) {
    warn(fmt::format("--on-end: the command failed with {} {}", WIFEXITED(status) ? "exit code" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)));
  }
  return end.exit_code;
}

}  // namespace starling::cli
