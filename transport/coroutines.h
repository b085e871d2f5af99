// Starting coroutines without waiting for them, and waking those that wait for something to change.
#pragma once

#include <chrono>
#include <exception>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace starling::transport {

// Starts `work` from the executor, never inside this call. Unlike with asio::detached, an exception that
// escapes (no memory is left) leaves io_context::run() and ends the program.
inline void spawn(const asio::any_io_executor& executor, asio::awaitable<void> work) {
  asio::post(executor, [executor, work = std::move(work)]() mutable {
    asio::co_spawn(executor, std::move(work), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  });
}

// Wakes coroutines on one executor: wait() returns after the next raise(). A waiter is not suspended between
// its check and its wait, so no raise() is lost.
class Signal {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Signal(const asio::any_io_executor& executor) : timer_(executor, TimePoint::max()) {}

  void raise() { timer_.cancel(); }

  asio::awaitable<void> wait();
  // Returns at the deadline at the latest. REQUIRES: no other waiter.
  asio::awaitable<void> wait_until(TimePoint deadline);

 private:
  asio::steady_timer timer_;
};

}  // namespace starling::transport
