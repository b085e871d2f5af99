#include "transport/coroutines.h"

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace starling::transport {

asio::awaitable<void> Signal::wait() {
  asio::error_code ignored;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

asio::awaitable<void> Signal::wait_until(TimePoint deadline) {
  timer_.expires_at(deadline);
  co_await wait();
  timer_.expires_at(TimePoint::max());
}

}  // namespace starling::transport
