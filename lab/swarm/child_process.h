// A child process with a socket to it: how the launcher starts a peer, hears its lines and talks to it. The
// child has a process group of its own, so that Ctrl-C reaches the launcher alone, and dies with the
// launcher. Everything here is called from the one thread that started the child.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::lab {

class ChildProcess {
 public:
  // The file descriptor of the socket in the child.
  static constexpr int kControlFd = 3;

  // Runs `program` with `arguments` (its name not among them), its output appended to the file `log`.
  // An Error says what the system refused; a program that cannot be executed shows as exit status 127.
  static Result<ChildProcess> start(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::string& log);
  // Kills a child that still runs, and waits for it.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // to poll for reading; -1 after its end of file

  // Sends one line. A child that no longer listens is no error.
  void tell(std::string_view line);
  void signal(int number);

  // The whole lines that have arrived, without their newlines. At the end of the stream, or where a line
  // exceeds a megabyte, the socket is closed.
  std::vector<std::string> read_lines();

  struct Exit {
    int status = 0;  // of exit(), where signal is 0
    int signal = 0;  // that killed it
  };
  // How it ended; nullopt while it runs.
  std::optional<Exit> exited();

 private:
  ChildProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  void close_socket();

  pid_t pid_;
  int fd_;
  std::string received_;
  std::optional<Exit> exit_;
};

}  // namespace starling::lab
