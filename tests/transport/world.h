// Helpers of the transport tests: an event loop that runs until a condition holds (nothing here sleeps), both
// transports by name, and raw bytes for invalid input.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "lab/world/network/virtual_identity.h"
#include "tests/catch.h"
#include "tests/transport/memory.h"
#include "tests/waiting.h"
#include "transport/coroutines.h"
#include "transport/links/tcp.h"
#include "transport/tls/tls.h"
#include "transport/transport.h"
#include "transport/trust/handshake.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::transport::testing {

enum class Kind { tcp, tls, memory };

// The TLS context of a swarm whose key consists of one repeated byte.
inline std::shared_ptr<TlsContext> context(unsigned char byte = 7, const std::string& swarm = "test",
                                           std::uint64_t records_per_key = TlsContext::kRecordsPerKey) {
  SwarmKey key;
  key.bytes.fill(std::byte{byte});
  auto made = TlsContext::make(key, swarm, records_per_key);
  REQUIRE(made.ok());
  return *made;
}

// The identity with this id.
inline const Identity& identity(std::uint64_t id) {
  static std::map<std::uint64_t, lab::VirtualIdentity> all;
  return all.try_emplace(id, PeerId{id}).first->second;
}

// The peer with this id in a handshake.
inline Self self(std::uint64_t id, const Address& address, const std::string& swarm = "test") {
  wire::Hello hello;
  hello.swarm = swarm;
  hello.name = "p" + std::to_string(id);
  hello.address = address;
  return {hello, &identity(id)};
}

// Its Hello as a dialer, with a nonce that is not fresh.
inline wire::Hello dialer_hello(const Self& self) {
  wire::Hello hello = self.hello;
  hello.key = self.identity->key();
  hello.id = self.identity->id();
  return hello;
}

inline constexpr Duration kLong = kHang;  // of a limit that is not reached

struct World {
  explicit World(Kind k = Kind::tcp) : kind(k) {}

  asio::any_io_executor executor() { return io.get_executor(); }

  // Handles events until `done`; false after kHang.
  template <class Condition>
  bool until(Condition done) {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (!done()) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      if (io.stopped()) io.restart();
      if (io.run_one_until(deadline) == 0) return done();
    }
    return true;
  }

  template <class T>
  T run(asio::awaitable<T> work) {
    const auto result = std::make_shared<std::optional<T>>();
    spawn(executor(), keep(std::move(work), result));
    REQUIRE(until([&] { return result->has_value(); }));
    return std::move(**result);
  }
  void run(asio::awaitable<void> work) {
    const auto done = std::make_shared<bool>(false);
    spawn(executor(), mark(std::move(work), done));
    REQUIRE(until([&] { return *done; }));
  }
  // Starts the task; the returned optional receives its result.
  template <class T>
  std::shared_ptr<std::optional<T>> begin(asio::awaitable<T> work) {
    auto result = std::make_shared<std::optional<T>>();
    spawn(executor(), keep(std::move(work), result));
    return result;
  }

  std::unique_ptr<Transport> make_transport() {
    if (kind == Kind::memory) return std::make_unique<MemoryTransport>(executor(), network);
    TcpOptions options = tcp;
    if (kind == Kind::tls && !options.tls) options.tls = context();
    return std::make_unique<TcpTransport>(executor(), options);
  }

  template <class T>
  static asio::awaitable<void> keep(asio::awaitable<T> work, std::shared_ptr<std::optional<T>> result) {
    result->emplace(co_await std::move(work));
  }
  static asio::awaitable<void> mark(asio::awaitable<void> work, std::shared_ptr<bool> done) {
    co_await std::move(work);
    *done = true;
  }

  Kind kind;
  TcpOptions tcp;  // for transports created from now on
  MemoryNetwork network;
  asio::io_context io{1};
};

inline Address anywhere() { return {"127.0.0.1", 0}; }

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Two connected ends.
struct Ends {
  explicit Ends(World& world) : transport(world.make_transport()) {
    auto listening = transport->listen(anywhere(), [this](LinkPtr link) { far = std::move(link); });
    REQUIRE(listening.ok());
    listener = std::move(*listening);
    auto dialed = world.run(transport->dial(listener->address(), kLong));
    REQUIRE(dialed.ok());
    near = *dialed;
    REQUIRE(world.until([&] { return far != nullptr; }));
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Listener> listener;
  LinkPtr near, far;
};

// A whole chunk frame of consecutive floats.
inline std::vector<std::byte> chunk_frame(std::uint32_t floats, std::uint64_t exchange = 1) {
  std::vector<float> values(floats);
  for (std::uint32_t i = 0; i < floats; ++i)
    values[i] = static_cast<float>(i % 1000) + static_cast<float>(exchange);
  const Bytes raw = std::as_bytes(std::span(values));
  std::vector<std::byte> frame(wire::kChunkPrefixBytes + raw.size());
  wire::write_chunk_prefix({exchange, 0, floats, wire::ChunkKind::offer}, raw,
                           std::span(frame).first<wire::kChunkPrefixBytes>());
  std::memcpy(frame.data() + wire::kChunkPrefixBytes, raw.data(), raw.size());
  return frame;
}

inline std::vector<std::byte> message_frame(const wire::Message& message) {
  return wire::encode_frame(message).value();
}

inline std::vector<std::byte> damaged(std::vector<std::byte> frame, std::size_t at, std::byte value) {
  frame.at(at) = value;
  return frame;
}

}  // namespace starling::transport::testing
