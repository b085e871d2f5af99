// Connections that wait in the handshake: how many may, and which are closed to make room.
#include "transport/trust/admission.h"

#include <memory>
#include <string>
#include <vector>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

#include "tests/transport/table_peer.h"
#include "transport/trust/handshake.h"

namespace starling::transport {
namespace {

using namespace testing;
using asio::ip::tcp;

// A connection from a loopback address of its own, without a handshake.
class Stranger {
 public:
  Stranger(World& world, const Address& to, const std::string& from) : socket_(world.io) {
    socket_.open(tcp::v4());
    socket_.bind({asio::ip::make_address(from), 0});
    socket_.connect({asio::ip::make_address(to.host), to.port});
    socket_.non_blocking(true);
  }

  void say(const std::string& text) { asio::write(socket_, asio::buffer(text)); }
  // Whether the peer has closed the connection. Does not wait.
  bool is_closed() {
    char byte = 0;
    asio::error_code error;
    socket_.read_some(asio::buffer(&byte, 1), error);
    return error && error != asio::error::would_block;
  }

 private:
  tcp::socket socket_;
};

// For conditions that no event of the world reports.
template <class Condition>
bool comes_true(World& world, Condition done) {
  return world.until([&] {
    if (done()) return true;
    asio::post(world.io, [] {});
    return false;
  });
}

// Limits of a table without time limits that a test could reach.
LinkTableOptions limits(std::size_t total, std::size_t per_source) {
  LinkTableOptions options;
  options.handshakes_max = total;
  options.handshakes_per_loopback_max = per_source;
  options.handshake_limit = std::chrono::minutes(10);
  return options;
}

std::uint64_t over_limit(const TablePeer& peer) { return peer.table->counters()[LinkErrorKind::over_limit]; }

}  // namespace

TEST_CASE("the source of a connection is its IPv4 address or the first 64 bits of its IPv6 address") {
  CHECK(source_of("10.1.2.3") == "10.1.2.3");
  CHECK(source_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(source_of("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64");
  CHECK(source_of("2001:db8:1:3::1") == "2001:db8:1:3::/64");
  CHECK(source_of("fe80::1%1") == "fe80::/64");
  CHECK(source_of("::1") == "::1");
  CHECK(source_of("memory") == "memory");
}

TEST_CASE("idle connections from one address do not keep out others from anywhere") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  TablePeer peer(world, 1, limits(256, 16));
  std::vector<std::unique_ptr<Stranger>> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(std::make_unique<Stranger>(world, peer.address, "127.0.0.2"));
    const std::size_t begun = idle.size();
    REQUIRE(comes_true(world, [&] { return peer.table->handshakes() + over_limit(peer) == begun; }));
    REQUIRE(peer.table->handshakes() <= 16);
  }
  CHECK(peer.table->handshakes() == 16);
  CHECK(over_limit(peer) == 284);
  CHECK(peer.refused == std::vector<LinkErrorKind>(284, LinkErrorKind::over_limit));
  for (std::size_t i = 0; i < 284; ++i) REQUIRE(comes_true(world, [&] { return idle[i]->is_closed(); }));
  for (std::size_t i = 284; i < 300; ++i) REQUIRE_FALSE(idle[i]->is_closed());
  check_still_serves(world, peer);  // the probe's address is 127.0.0.1

  // The address of the idle connections can also introduce itself.
  Stranger member(world, peer.address, "127.0.0.2");
  REQUIRE(comes_true(world, [&] { return over_limit(peer) == 285; }));
  CHECK_FALSE(member.is_closed());
}

TEST_CASE("at the limit for all, the oldest connection that has sent nothing is closed") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  TablePeer peer(world, 1, limits(4, 4));
  std::vector<std::unique_ptr<Stranger>> all;
  const auto arrive = [&](const std::string& from, std::size_t closed) {
    all.push_back(std::make_unique<Stranger>(world, peer.address, from));
    const std::size_t begun = all.size();
    REQUIRE(comes_true(world, [&] { return peer.table->handshakes() + over_limit(peer) == begun; }));
    REQUIRE(over_limit(peer) == closed);
  };
  arrive("127.0.0.2", 0);
  arrive("127.0.0.3", 0);
  arrive("127.0.0.4", 0);
  arrive("127.0.0.5", 0);
  // The bytes are in the kernel, whether or not the peer has read them.
  const std::string begun_hello = world.kind == Kind::tls ? "\x16\x03\x01" : "STRL";
  all[0]->say(begun_hello);
  arrive("127.0.0.6", 1);
  CHECK(comes_true(world, [&] { return all[1]->is_closed(); }));
  CHECK_FALSE(all[0]->is_closed());
  arrive("127.0.0.7", 2);
  CHECK(comes_true(world, [&] { return all[2]->is_closed(); }));

  // All have sent something: the new connection is closed.
  for (const std::size_t i : {3, 4, 5}) all[i]->say(begun_hello);
  arrive("127.0.0.8", 3);
  CHECK(comes_true(world, [&] { return all[6]->is_closed(); }));
  for (const std::size_t i : {0, 3, 4, 5}) CHECK_FALSE(all[i]->is_closed());
  CHECK(peer.table->handshakes() == 4);
}

TEST_CASE("a dialer that is turned away learns that the peer is busy") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  TablePeer peer(world, 1, limits(2, 2)), joiner(world, 2);
  std::vector<std::unique_ptr<Stranger>> talking;
  for (const char* from : {"127.0.0.2", "127.0.0.3"}) {
    talking.push_back(std::make_unique<Stranger>(world, peer.address, from));
    talking.back()->say(world.kind == Kind::tls ? "\x16" : "S");
  }
  REQUIRE(comes_true(world, [&] { return peer.table->handshakes() == 2; }));
  joiner.send(peer.address, ping(1));
  REQUIRE(world.until([&] { return !joiner.failures.empty(); }));
  CHECK(joiner.failures[0].at == peer.address);
  CHECK(joiner.failures[0].kind == LinkErrorKind::busy);
  CHECK(contains(joiner.failures[0].sentence, to_string(peer.address) + " closed the connection"));
  CHECK(joiner.table->counters()[LinkErrorKind::busy] == 1);
  CHECK(over_limit(peer) == 1);
  talking.clear();
  REQUIRE(comes_true(world, [&] { return peer.table->handshakes() == 0; }));
  joiner.send(peer.address, ping(2));
  CHECK(world.until([&] { return peer.pings.size() == 1; }));
}

TEST_CASE("a remote that closes at once is busy, and one that sends something first is not") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const bool silent = GENERATE(true, false);
  TablePeer joiner(world, 1);
  // Raw bytes, also where the joiner expects TLS.
  const std::unique_ptr<Transport> server =
      world.kind == Kind::memory ? world.make_transport()
                                 : std::make_unique<TcpTransport>(world.executor(), TcpOptions{});
  const auto listener = server->listen(anywhere(), [&](LinkPtr link) {
    if (silent) return link->close();
    spawn(world.executor(), [](LinkPtr l) -> asio::awaitable<void> {
      static_cast<void>(co_await l->write(bytes_of("STR")));
      l->finish();
      co_await l->drain(4096);
    }(link));
  });
  REQUIRE(listener.ok());
  joiner.send((*listener)->address(), ping(1));
  REQUIRE(world.until([&] { return !joiner.failures.empty(); }));
  CHECK((joiner.failures[0].kind == LinkErrorKind::busy) == silent);
}

TEST_CASE("addresses of members have reserved places") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  TablePeer peer(world, 1, limits(16, 16)), member(world, 2);  // one of them is reserved
  member.send(peer.address, ping(1));
  REQUIRE(world.until([&] { return peer.pings.size() == 1; }));
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 2; i < 20; ++i) {
    strangers.push_back(std::make_unique<Stranger>(world, peer.address, "127.0.0." + std::to_string(i)));
    strangers.back()->say(world.kind == Kind::tls ? "\x16" : "S");
    const std::size_t begun = strangers.size();
    REQUIRE(comes_true(world, [&] { return peer.table->handshakes() + over_limit(peer) == begun; }));
  }
  CHECK(peer.table->handshakes() == 15);
  CHECK(over_limit(peer) == 3);
  CHECK(world.run(member.table->dial_bulk({{}, peer.address})).ok());
  CHECK(over_limit(peer) == 3);
}

}  // namespace starling::transport
