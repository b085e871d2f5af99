// Connections that do not come from members of the swarm, and invalid data.
#include "tests/contains.h"
#include "transport/links/link_table.h"

#include <vector>

#include "base/random.h"
#include "tests/transport/table_peer.h"
#include "transport/trust/handshake.h"

namespace starling::transport {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("foreign traffic is rejected and counted by reason, and the peer keeps serving") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer peer(world, 1);
  const auto stranger = world.make_transport();
  const auto greeting = message_frame(dialer_hello(self(2, {"127.0.0.1", 7002})));
  auto oversize = greeting;
  store(oversize.data() + 8, std::uint32_t{0x7fffffff});
  const Bytes http = bytes_of("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");

  const auto throw_at = [&](std::vector<std::byte> bytes, LinkErrorKind kind) {
    const std::size_t before = peer.refused.size();
    const LinkPtr link = raw_dial(world, *stranger, peer.address);
    REQUIRE(world.run(link->write(bytes)).ok());
    if (kind == LinkErrorKind::broken || kind == LinkErrorKind::bad_version) link->finish();
    REQUIRE(world.until([&] { return peer.refused.size() > before; }));
    CHECK(peer.refused.back() == kind);
    CHECK(peer.table->counters()[kind] >= 1);
  };
  throw_at({http.begin(), http.end()}, LinkErrorKind::bad_magic);
  throw_at(oversize, LinkErrorKind::oversize);
  throw_at(damaged(greeting, 4, std::byte{1}), LinkErrorKind::bad_version);
  if (world.kind != Kind::tls)  // which protects the bytes by itself
    throw_at(damaged(greeting, 30, greeting[30] ^ std::byte{1}), LinkErrorKind::bad_checksum);
  throw_at({greeting.begin(), greeting.end() - 5}, LinkErrorKind::broken);
  throw_at(message_frame(ping(1)), LinkErrorKind::malformed);
  throw_at(chunk_frame(4), LinkErrorKind::malformed);
  Random r(31);
  for (int i = 0; i < 30; ++i) {
    std::vector<std::byte> noise(24 + r.below(300));
    for (std::byte& b : noise) b = static_cast<std::byte>(r.below(256));
    noise[0] = std::byte{0};
    throw_at(noise, LinkErrorKind::bad_magic);
  }
  CHECK(peer.table->counters()[LinkErrorKind::bad_magic] == 31);
  CHECK(peer.table->counters()[LinkErrorKind::malformed] == 2);
  CHECK(peer.table->handshakes() == 0);
  CHECK(peer.table->links() == 0);
  CHECK(peer.pings.empty());
  check_still_serves(world, peer);
}

TEST_CASE("invalid data on an established link ends and counts that link only") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer peer(world, 1), friendly(world, 2);
  friendly.send(peer.address, ping(1));
  REQUIRE(world.until([&] { return peer.pings.size() == 1; }));

  const auto stranger = world.make_transport();
  const auto whole_body = wire::encode_message(ping(5));
  std::vector<std::byte> garbled(wire::kFrameHeaderBytes + 64,
                                 std::byte{0x5a});  // valid checksum, invalid FlatBuffer
  wire::write_control_header(Bytes(garbled).subspan(wire::kFrameHeaderBytes),
                             std::span(garbled).first<wire::kFrameHeaderBytes>());
  const auto good = message_frame(ping(2));
  const std::vector<std::pair<std::vector<std::byte>, LinkErrorKind>> cases = {
      {garbled, LinkErrorKind::malformed},
      {damaged(good, good.size() - 1, good.back() ^ std::byte{1}), LinkErrorKind::bad_checksum},
      {message_frame(dialer_hello(self(50, {"127.0.0.1", 7050}))), LinkErrorKind::malformed},
      {message_frame(wire::StateHead{1, 1}), LinkErrorKind::malformed},
      {chunk_frame(3), LinkErrorKind::malformed},
      {{good.begin(), good.begin() + 30}, LinkErrorKind::broken},
  };
  std::uint64_t id = 50;
  for (const auto& [bytes, kind] : cases) {
    // TLS protects the bytes by itself.
    if (world.kind == Kind::tls && kind == LinkErrorKind::bad_checksum) continue;
    const Address claimed{"127.0.0.1", static_cast<std::uint16_t>(7000 + id)};
    const LinkPtr link = raw_dial(world, *stranger, peer.address);
    REQUIRE(world.run(introduce(*link, self(id++, claimed), kLong)).ok());
    REQUIRE(world.until([&] { return peer.table->links() == 2; }));
    const std::size_t before = peer.failures.size();
    REQUIRE(world.run(link->write(bytes)).ok());
    if (kind == LinkErrorKind::broken) link->close();
    REQUIRE(world.until([&] { return peer.failures.size() > before; }));
    CHECK(peer.failures.back().at == claimed);
    CHECK(peer.failures.back().kind == kind);
    CHECK(peer.table->counters()[kind] >= 1);
    CHECK(peer.table->links() == 1);
  }
  CHECK(peer.table->counters()[LinkErrorKind::malformed] == 4);
  friendly.send(peer.address, ping(3));
  CHECK(world.until([&] { return peer.pings.size() == 2; }));
  CHECK(friendly.table->counters().links_dialed == 1);
  CHECK(friendly.failures.empty());
}

TEST_CASE("another swarm and the peer itself are rejected with a clear error") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1, {}, "a"), b(world, 2, {}, "b");
  a.send(b.address, ping(1));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].kind == LinkErrorKind::refused);
  CHECK(contains(a.failures[0].sentence, "swarm 'a' refused: this peer belongs to swarm 'b'"));
  CHECK(world.until([&] { return b.table->counters()[LinkErrorKind::wrong_swarm] == 1; }));

  a.send(a.address, ping(2));
  REQUIRE(world.until([&] { return a.failures.size() == 2; }));
  CHECK(contains(a.failures[1].sentence, "itself"));
  CHECK(world.until([&] { return a.table->counters()[LinkErrorKind::same_peer] == 1; }));
  CHECK(a.table->links() == 0);
}

TEST_CASE("an address with a foreign server is reported as not a Starling peer") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1);
  const auto server = world.make_transport();
  std::vector<LinkPtr> clients;
  const auto listener = server->listen(anywhere(), [&](LinkPtr link) {
    clients.push_back(link);
    spawn(world.executor(), [](LinkPtr l) -> asio::awaitable<void> {
      static_cast<void>(co_await l->write(bytes_of("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")));
    }(link));
  });
  REQUIRE(listener.ok());
  const Address at = (*listener)->address();
  a.send(at, ping(1));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].at == at);
  CHECK(a.failures[0].kind == LinkErrorKind::bad_magic);
  CHECK(contains(a.failures[0].sentence, to_string(at) + " is not a Starling peer"));
}

TEST_CASE("connections without a handshake are limited in number and time out") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.handshakes_max = 3;
  options.handshake_limit = std::chrono::milliseconds(200);
  TablePeer peer(world, 1, options);
  const auto stranger = world.make_transport();
  std::vector<LinkPtr> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(raw_dial(world, *stranger, peer.address));
  REQUIRE(world.until([&] {
    const LinkCounters counters = peer.table->counters();
    return counters[LinkErrorKind::over_limit] + counters.handshake_timeouts == 5;
  }));
  CHECK(peer.table->handshakes() == 0);
  CHECK(peer.table->counters().handshake_timeouts >= 3);
  CHECK(peer.table->counters()[LinkErrorKind::timed_out] == peer.table->counters().handshake_timeouts);
  check_still_serves(world, peer);
}

}  // namespace starling::transport
