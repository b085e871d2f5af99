// Wakes coroutines that wait for something to change, on one executor: wait() returns after the next raise().
// There is no suspension between a waiter's check and its wait, so no raise() is lost.
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
  // Returns at the deadline at the latest. REQUIRES: no other waiter.
  asio::awaitable<void> wait_until(TimePoint deadline) {
    timer_.expires_at(deadline);
    co_await wait();
    timer_.expires_at(TimePoint::max());
  }

 private:
  asio::steady_timer timer_;
};

}  // namespace starling::transport
