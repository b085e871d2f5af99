// Reports to the service manager that started this process (systemd's protocol, sd_notify(3)): one datagram
// each to the socket that $NOTIFY_SOCKET names. Without a service manager nothing is sent, which is no error.
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

  void ready(const std::string& status);  // the peer listens; once
  // To be called often: sends the status if it has changed, and a sign of life if there is a watchdog.
  void alive(const std::string& status);
  void stopping();  // once

 private:
  void send(const std::string& text);

  using Clock = std::chrono::steady_clock;
  int socket_ = -1;
  std::optional<Clock::duration> watchdog_;  // between two signs of life; nullopt: no watchdog
  std::optional<Clock::time_point> said_alive_;
  std::string said_status_;
  bool said_stopping_ = false;
};

}  // namespace starling::node
