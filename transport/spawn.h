// Starts a coroutine that nobody waits for. Unlike asio::detached it swallows no exception: one that escapes
// (there is no memory left) leaves io_context::run() and ends the program loudly.
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
