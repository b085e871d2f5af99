// Two ends of a connection in memory, on an event loop of their own: bytes go in at one, a Link reads at the
// other.
#pragma once

#include <memory>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include "base/check.h"
#include "transport/memory.h"
#include "transport/spawn.h"

namespace starling::fuzz {

struct Pipe {
  Pipe() {
    auto listening = transport.listen({"fuzz", 0}, [this](transport::LinkPtr link) { far = std::move(link); });
    STARLING_CHECK(listening.ok());
    listener = std::move(*listening);
    transport::spawn(io.get_executor(), [](Pipe* self) -> asio::awaitable<void> {
      auto dialled = co_await self->transport.dial(self->listener->address(), std::chrono::seconds(5));
      STARLING_CHECK(dialled.ok());
      self->near = *dialled;
    }(this));
    settle();
    STARLING_CHECK(near != nullptr && far != nullptr);
  }
  ~Pipe() {
    near->close();
    far->close();
    settle();
  }

  // Until nothing moves any more; no time passes.
  void settle() {
    io.restart();
    while (io.poll() > 0) {
    }
  }
  void run(asio::awaitable<void> work) {
    transport::spawn(io.get_executor(), std::move(work));
    settle();
  }
  // All bytes come in, and then the end.
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
