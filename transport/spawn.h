// Starts a coroutine without waiting for it. Unlike with asio::detached, an exception that escapes (no memory
// is left) leaves io_context::run() and ends the program.
#pragma once

#include <exception>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>

namespace starling::transport {

// `work` begins from the executor, never inside this call.
inline void spawn(const asio::any_io_executor& executor, asio::awaitable<void> work) {
  asio::post(executor, [executor, work = std::move(work)]() mutable {
    asio::co_spawn(executor, std::move(work), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  });
}

}  // namespace starling::transport
