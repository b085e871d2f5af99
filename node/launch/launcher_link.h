// The connection to the launcher that started this peer: reports go out, commands come in, and its end of
// file means that the launcher is gone. It never blocks the daemon: if the launcher does not read, reports
// are dropped.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>

#include "base/time.h"
#include "training/experiment/control.h"

namespace starling::node {

class LauncherLink {
 public:
  // Takes ownership of `fd`, one end of a socket pair.
  LauncherLink(const asio::any_io_executor& executor, int fd,
               std::function<void(std::string command)> on_command, std::function<void()> on_gone);
  ~LauncherLink();

  void report(const training::PeerReport& report);
  // Writes the queue and the last report; blocks for at most `at_most`.
  void report_last(const training::PeerReport& report, Duration at_most);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace starling::node
