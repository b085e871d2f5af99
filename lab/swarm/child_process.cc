#include "lab/swarm/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

constexpr std::size_t kLongestLine = 1 << 20;
constexpr int kCannotExecute = 127;  // the exit code of shells

Error system_error(const std::string& what) { return Error{what + ": " + std::strerror(errno)}; }

// Runs in the child between fork and exec. The launcher has threads, so only async-signal-safe functions are
// allowed.
[[noreturn]] void become(const char* program, char* const* arguments, int null, int log, int socket,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kCannotExecute);  // the launcher died before prctl()
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // All sources have higher numbers than all targets, so no source is overwritten.
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(socket, ChildProcess::kControlFd);
  close_range(ChildProcess::kControlFd + 1, ~0U, 0);
  execv(program, arguments);
  _exit(kCannotExecute);
}

// Moves `fd` to a number above those that the child uses.
int lift(int fd) {
  if (fd < 0) return fd;
  const int lifted = fcntl(fd, F_DUPFD_CLOEXEC, ChildProcess::kControlFd + 1);
  close(fd);
  return lifted;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::string& program,
                                         const std::vector<std::string>& arguments, const std::string& log) {
  if (Status accepted = training::check_target(log); !accepted) return accepted.error();
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return system_error("cannot create a socket pair for a peer");
  }
  const int ours = lift(sockets[0]);
  const int theirs = lift(sockets[1]);
  const int null = lift(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int output = lift(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  const auto close_all = [&] {
    for (const int fd : {theirs, null, output}) {
      if (fd >= 0) close(fd);
    }
  };
  if (ours < 0 || theirs < 0 || null < 0 || output < 0 || fcntl(ours, F_SETFL, O_NONBLOCK) != 0) {
    const Error error = system_error("cannot open " + log);
    close_all();
    if (ours >= 0) close(ours);
    return error;
  }

  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(program.c_str(), pointers.data(), null, output, theirs, parent);
  const Error error = system_error("cannot start a process");
  close_all();
  if (pid < 0) {
    close(ours);
    return error;
  }
  return ChildProcess(pid, ours);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      received_(std::move(other.received_)),
      exit_(other.exit_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(fd_, other.fd_);
  std::swap(received_, other.received_);
  std::swap(exit_, other.exit_);
  return *this;
}

ChildProcess::~ChildProcess() {
  close_socket();
  if (pid_ < 0 || exit_) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::close_socket() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void ChildProcess::tell(std::string_view line) {
  if (fd_ < 0) return;
  const std::string text = std::string(line) + "\n";
  // A command that does not fit is dropped: the child has not read its socket for a long time.
  [[maybe_unused]] const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !exit_) kill(pid_, number);
}

std::vector<std::string> ChildProcess::read_lines() {
  std::vector<std::string> lines;
  std::array<char, 16384> buffer;
  while (fd_ >= 0) {
    const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      close_socket();
      break;
    }
    received_.append(buffer.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(received_.substr(begin, end - begin));
    }
    received_.erase(0, begin);
    if (received_.size() > kLongestLine) close_socket();
  }
  return lines;
}

std::optional<ChildProcess::Exit> ChildProcess::exited() {
  if (exit_ || pid_ < 0) return exit_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  exit_ = Exit{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return exit_;
}

}  // namespace starling::lab
