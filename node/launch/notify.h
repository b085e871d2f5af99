// Tells the service manager that started this process how it is (systemd's notification protocol,
// sd_notify(3)): one datagram each to the socket that $NOTIFY_SOCKET names. Where nobody listens, nothing is
// said, and nothing is wrong.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace starling::node {

class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  ServiceNotifier();
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  void ready(const std::string& status);  // the peer can be reached: once
  // To be called often: says what the peer does where that has changed, and that it lives, if somebody
  // watches.
  void alive(const std::string& status);
  void stopping();  // once

 private:
  void send(const std::string& text);

  using Clock = std::chrono::steady_clock;
  int socket_ = -1;
  std::optional<Clock::duration> watchdog_;  // how often somebody wants to hear that it lives
  std::optional<Clock::time_point> said_alive_;
  std::string said_status_;
  bool said_stopping_ = false;
};

}  // namespace starling::node
