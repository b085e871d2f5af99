// Reports to the service manager that started this process (systemd's protocol, sd_notify(3)): one datagram
// each to the socket that $NOTIFY_SOCKET names. Without a service manager nothing is sent.
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
  // Called often: sends the status if it has changed, and a keep-alive if there is a watchdog.
  void alive(const std::string& status);
  void stopping();  // once

 private:
  void send(const std::string& text);

  using Clock = std::chrono::steady_clock;
  int socket_ = -1;
  std::optional<Clock::duration> watchdog_;  // between two keep-alives; nullopt: no watchdog
  std::optional<Clock::time_point> sent_alive_;
  std::string sent_status_;
  bool sent_stopping_ = false;
};

}  // namespace starling::node
