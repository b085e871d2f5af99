// Two ends of an in-memory connection on their own event loop: bytes are written at one end, a Link reads at
// the other.
#pragma once

#include <memory>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include "base/check.h"
#include "tests/transport/memory.h"
#include "transport/coroutines.h"

namespace starling::fuzz {

struct Pipe {
  Pipe() {
    auto listening =
        transport.listen({"fuzz", 0}, [this](transport::LinkPtr link) { far = std::move(link); });
    STARLING_CHECK(listening.ok());
    listener = std::move(*listening);
    transport::spawn(io.get_executor(), [](Pipe* self) -> asio::awaitable<void> {
      auto dialed = co_await self->transport.dial(self->listener->address(), std::chrono::seconds(5));
      STARLING_CHECK(dialed.ok());
      self->near = *dialed;
    }(this));
    settle();
    STARLING_CHECK(near != nullptr && far != nullptr);
  }
  ~Pipe() {
    near->close();
    far->close();
    settle();
  }

  // Runs until nothing is pending; no time passes.
  void settle() {
    io.restart();
    while (io.poll() > 0) {
    }
  }
  void run(asio::awaitable<void> work) {
    transport::spawn(io.get_executor(), std::move(work));
    settle();
  }
  // Delivers all bytes, then the end of the stream.
  void feed(const std::vector<std::byte>& bytes) {
    run([](Pipe* self, const std::vector<std::byte>& all) -> asio::awaitable<void> {
      if ((co_await self->near->write(all)).ok()) self->near->finish();
    }(this, bytes));
  }

  asio::io_context io{1};
  transport::MemoryNetwork network;
  transport::MemoryTransport transport{io.get_executor(), network};
  std::unique_ptr<transport::Listener> listener;
  transport::LinkPtr near, far;
};

}  // namespace starling::fuzz
