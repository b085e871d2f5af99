// Wakes coroutines that wait for something to change, on one executor: wait() returns after the next raise().
// Nothing can slip in between a waiter's own look and its wait, because both run without a suspension between
// them.
#pragma once

#include <chrono>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

namespace starling::transport {

class Signal {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Signal(const asio::any_io_executor& executor) : timer_(executor, TimePoint::max()) {}

  void raise() { timer_.cancel(); }

  asio::awaitable<void> wait() {
    asio::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  // At the latest then. REQUIRES: no other waiter.
  asio::awaitable<void> wait_until(TimePoint deadline) {
    timer_.expires_at(deadline);
    co_await wait();
    timer_.expires_at(TimePoint::max());
  }

 private:
  asio::steady_timer timer_;
};

}  // namespace starling::transport
