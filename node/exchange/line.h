// The connections that this peer dialed for exchanges and keeps for the next ones.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "transport/link.h"
#include "transport/signal.h"

namespace starling::node {

// One connection. While it is in the pool, a read is under way, which detects at once that the remote closes;
// the exchange that takes the line takes over that read.
struct Line {
  Line(const asio::any_io_executor& executor, PeerId id, transport::LinkPtr l)
      : remote(id), link(std::move(l)), arrived(executor) {}

  asio::awaitable<transport::LinkResult<transport::Frame>> read();

  PeerId remote;
  transport::LinkPtr link;
  bool idle = false;
  bool watched = false;  // the watcher's read is under way, or its result is in `first`
  std::optional<transport::LinkResult<transport::Frame>> first;
  transport::Signal arrived;
};
using LinePtr = std::shared_ptr<Line>;

// At most `lines_max` lines, each for at most `idle_limit` without use.
class LinePool {
 public:
  LinePool(asio::any_io_executor executor, std::size_t lines_max, Duration idle_limit)
      : executor_(std::move(executor)), lines_max_(lines_max), idle_limit_(idle_limit) {}

  LinePtr take(PeerId partner);  // null: none is open
  void rest(LinePtr line);
  void close();
  std::size_t size() const { return idle_.size(); }

 private:
  asio::awaitable<void> watch(LinePtr line);

  asio::any_io_executor executor_;
  std::size_t lines_max_;
  Duration idle_limit_;
  std::list<LinePtr> idle_;  // the most recently used first
};

}  // namespace starling::node
