// A port of this machine that accepts connections and never sends anything.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "base/check.h"
#include "tests/waiting.h"

namespace starling::cli_tests {

class SilentPort {
 public:
  SilentPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;  // another program can listen here next
    STARLING_CHECK(::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    STARLING_CHECK(::bind(fd_, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    STARLING_CHECK(::listen(fd_, 16) == 0);
    STARLING_CHECK(::getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
  }
  ~SilentPort() { ::close(fd_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  const std::string& address() const { return address_; }
  // Waits for a connection, and closes it; false if there is none.
  bool turn_away() const {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kHang).count())) != 1) return false;
    const int connection = ::accept(fd_, nullptr, nullptr);
    return connection >= 0 && ::close(connection) == 0;
  }

 private:
  int fd_;
  std::string address_;
};

}  // namespace starling::cli_tests
