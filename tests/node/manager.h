// A service manager's end of the notification protocol, for tests.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "base/check.h"

namespace starling::node {

// The receiving end: a datagram socket with a path, or with an abstract name (with '@').
class Manager {
 public:
  explicit Manager(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@') address.sun_path[0] = '\0';
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    STARLING_CHECK(::bind(socket_, reinterpret_cast<const sockaddr*>(&address),
                          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) == 0);
  }
  ~Manager() { ::close(socket_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // The next datagram, or an empty string if there is none.
  std::string heard() const {
    char text[512];
    const ssize_t size = ::recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  int socket_ = -1;
};

}  // namespace starling::node
