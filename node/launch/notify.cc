#include "node/launch/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace starling::node {
namespace {

// systemd recommends a keep-alive in half of the watchdog's time; alive() is called every quarter of a
// second.
std::optional<std::chrono::steady_clock::duration> watchdog_interval() {
  const char* limit = std::getenv("WATCHDOG_USEC");
  const char* pid = std::getenv("WATCHDOG_PID");
  const auto microseconds = limit == nullptr ? std::nullopt : parse_number<std::uint64_t>(limit);
  if (!microseconds || *microseconds == 0) return std::nullopt;
  if (pid != nullptr && parse_number<pid_t>(pid) != ::getpid()) return std::nullopt;
  return std::chrono::microseconds(*microseconds / 3);
}

}  // namespace

ServiceNotifier::ServiceNotifier() {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (socket_ >= 0 && ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    ::close(socket_);
    socket_ = -1;
  }
  watchdog_ = watchdog_interval();
}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) ::close(socket_);
}

void ServiceNotifier::send(const std::string& text) {
  if (socket_ >= 0) (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
}

void ServiceNotifier::ready(const std::string& status) {
  sent_status_ = status;
  send("READY=1\nSTATUS=" + status);
}

void ServiceNotifier::alive(const std::string& status) {
  std::string text;
  if (status != sent_status_) {
    sent_status_ = status;
    text = "STATUS=" + status;
  }
  const auto now = Clock::now();
  if (watchdog_ && (!sent_alive_ || now - *sent_alive_ >= *watchdog_)) {
    sent_alive_ = now;
    text += text.empty() ? "WATCHDOG=1" : "\nWATCHDOG=1";
  }
  if (!text.empty()) send(text);
}

void ServiceNotifier::stopping() {
  if (sent_stopping_) return;
  sent_stopping_ = true;
  send("STOPPING=1");
}

}  // namespace starling::node
