// A child process with a socket to it: how the launcher starts a peer, reads its reports and sends it
// commands. The child has its own process group, so that Ctrl-C reaches only the launcher, and it dies with
// the launcher. One thread starts the child and makes all calls.
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
  // The socket's file descriptor in the child.
  static constexpr int kControlFd = 3;

  // Runs `program` with `arguments` (without its name) and writes its output to the file `log`. An Error
  // names the system call's problem; a program that cannot be executed ends with exit status 127.
  static Result<ChildProcess> start(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::string& log);
  // Kills a child that still runs and waits for it.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // to poll for reading; -1 at its end of file

  // Sends one line; does nothing if the child has closed the socket.
  void tell(std::string_view line);
  void signal(int number);

  // The complete lines that have arrived, without their newlines. Closes the socket at the end of the stream
  // and after a line of more than a megabyte.
  std::vector<std::string> read_lines();

  struct Exit {
    int status = 0;  // exit code, if signal is 0
    int signal = 0;  // the signal that killed it
  };
  // nullopt while the child runs.
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
