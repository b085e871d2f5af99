// Limits: idle links, their number, dials, and remotes that do not read.
#include "transport/links/link_table.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/transport/table_peer.h"
#include "transport/trust/handshake.h"

namespace starling::transport {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("idle links are closed silently and reopened when needed") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.idle_limit = std::chrono::milliseconds(20);
  TablePeer a(world, 1, options), b(world, 2);
  a.send(b.address, ping(1));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  REQUIRE(world.until([&] { return a.table->links() == 0 && b.table->links() == 0; }));
  b.send(a.address, ping(2));
  REQUIRE(world.until([&] { return a.pings.size() == 1; }));
  CHECK(a.failures.empty());
  CHECK(b.failures.empty());
}

TEST_CASE("the number of links is limited, and the least recently used is closed first") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.links_max = 2;
  TablePeer hub(world, 1, options), x(world, 2), y(world, 3), z(world, 4);
  hub.send(x.address, ping(1));
  REQUIRE(world.until([&] { return x.pings.size() == 1; }));
  hub.send(y.address, ping(1));
  REQUIRE(world.until([&] { return y.pings.size() == 1; }));
  hub.send(x.address, ping(2));
  REQUIRE(world.until([&] { return x.pings.size() == 2; }));
  hub.send(z.address, ping(1));
  REQUIRE(world.until([&] { return z.pings.size() == 1 && y.table->links() == 0; }));
  CHECK(hub.table->links() == 2);
  CHECK(x.table->links() == 1);
  CHECK(z.table->links() == 1);
  hub.send(y.address, ping(2));
  REQUIRE(world.until([&] { return y.pings.size() == 2; }));
  CHECK(hub.table->links() == 2);
  CHECK(hub.failures.empty());
}

TEST_CASE("a hub with hundreds of peers keeps few links, loses no message and reports no peer unreachable") {
  const bool memory = GENERATE(true, false);
  World world(memory ? Kind::memory : Kind::tcp);
  LinkTableOptions options;
  options.links_max = 16;
  options.handshakes_max = options.handshakes_per_loopback_max = 512;  // all dial at once
  TablePeer hub(world, 500, options);
  hub.answers = true;
  std::vector<std::unique_ptr<TablePeer>> others;
  for (std::uint64_t i = 0; i < (memory ? 250 : 120); ++i) {
    others.push_back(std::make_unique<TablePeer>(world, i < 60 ? i + 1 : i + 1000));  // lower and higher ids
    others.back()->answers = true;
  }
  const auto all = [&](auto done) {
    std::size_t most = 0;
    REQUIRE(world.until([&] {
      most = std::max(most, hub.table->links());
      return std::all_of(others.begin(), others.end(), [&](const auto& o) { return done(*o); });
    }));
    REQUIRE(world.until([&] { return hub.table->links() <= options.links_max; }));
    return most;
  };
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::size_t n = round;
    // All dial at once: each link that is done makes room for the next one.
    for (auto& o : others) o->send(hub.address, ping(round));
    CHECK(all([&](const TablePeer& o) { return o.acks.size() == n; }) <= 2 * options.links_max);
    // The hub dials them, a dozen at a time.
    for (std::size_t i = 0; i < others.size(); ++i) {
      hub.send(others[i]->address, ping(round));
      if (i % 12 == 11) REQUIRE(world.until([&] { return others[i]->pings.size() == n; }));
      REQUIRE(hub.table->links() <= options.links_max);
    }
    all([&](const TablePeer& o) { return o.pings.size() == n; });
    // Both directions at once.
    if (round == 3) {
      for (auto& o : others) o->send(hub.address, ping(9));
      for (auto& o : others) hub.send(o->address, ping(9));
      all([&](const TablePeer& o) { return o.acks.size() == 4 && o.pings.size() == 4; });
    }
  }
  REQUIRE(world.until([&] { return hub.acks.size() == 4 * others.size(); }));
  CHECK(hub.pings.size() == 4 * others.size());
  CHECK(hub.failures.empty());
  CHECK(hub.table->counters().messages_dropped == 0);
  for (const auto& o : others) {
    CHECK(o->failures.empty());
    CHECK(o->table->counters().messages_dropped == 0);
  }
}

TEST_CASE("a link with pending writes is not closed to make room") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.links_max = 1;
  TablePeer hub(world, 1, options), y(world, 3);
  const auto stranger = world.make_transport();
  const LinkPtr slow = raw_dial(world, *stranger, hub.address);
  const Address claimed{"127.0.0.1", 1};
  REQUIRE(world.run(introduce(*slow, self(5, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 1; }));
  wire::Ack large;  // a few of these fill the connection
  large.members.assign(2000, {PeerId{1}, "name", {"127.0.0.1", 1}, 0, {}, {}, 0, 0, {}});
  constexpr std::size_t kMessages = 10;
  for (std::size_t i = 0; i < kMessages; ++i) hub.send(claimed, large);
  hub.send(y.address, ping(1));
  REQUIRE(world.until([&] { return y.pings.size() == 1; }));
  CHECK(hub.table->counters().messages_sent < kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) REQUIRE(world.run(read_message(*slow)).ok());
  hub.send(claimed, ping(2));
  const auto heard = world.run(read_message(*slow));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(2));
  CHECK(hub.table->links() == 1);
  CHECK(hub.table->counters().links_dialed == 1);
  CHECK(hub.failures.empty());
}

TEST_CASE("a link whose remote vanished silently is eventually abandoned") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.idle_limit = std::chrono::milliseconds(20);
  TablePeer a(world, 1, options);
  TablePeer b(world, 2);  // the other end keeps its dead link
  b.answers = true;
  a.send(b.address, ping(1));
  REQUIRE(world.until([&] { return a.acks.size() == 1; }));
  world.network.swallow(b.address);
  // Messages are still sent although none is answered.
  SECTION("the remote is back: it is reached over a new link") {
    REQUIRE(world.until([&] {
      a.send(b.address, ping(2));
      return a.acks.size() > 1;
    }));
    CHECK(a.failures.empty());
    CHECK(a.table->counters().links_dialed >= 2);
    CHECK(b.failures.empty());
  }
  SECTION("the remote is gone: it is reported unreachable") {
    b.table->close();
    REQUIRE(world.until([&] {
      a.send(b.address, ping(2));
      return !a.failures.empty();
    }));
    CHECK(a.failures[0].at == b.address);
    CHECK(a.failures[0].kind == LinkErrorKind::unreachable);
  }
}

TEST_CASE("hanging dials do not delay others and are limited in number") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.dial_limit = std::chrono::milliseconds(200);
  TablePeer b(world, 2);
  const auto hang = [&](TablePeer& peer, std::uint16_t n) {
    for (std::uint16_t i = 1; i <= n; ++i) {
      const Address nobody{"far", i};
      world.network.swallow_dials(nobody, true);
      peer.send(nobody, ping(i));
    }
  };
  SECTION("a hundred in parallel") {
    options.dial_limit = kLong;
    TablePeer a(world, 1, options);
    hang(a, 100);
    a.send(b.address, ping(1));
    REQUIRE(world.until([&] { return b.pings.size() == 1; }));
    CHECK(a.failures.empty());
  }
  SECTION("more than the limit: the others wait") {
    options.dials_max = 4;
    TablePeer a(world, 1, options);
    hang(a, 10);
    a.send(b.address, ping(1));
    REQUIRE(world.until([&] { return b.pings.size() == 1; }));
    CHECK(a.failures.size() >= 8);
    REQUIRE(world.until([&] { return a.failures.size() == 10; }));
    CHECK(a.table->counters().messages_dropped == 10);
  }
}

TEST_CASE("receivers without a link are limited, and those that waited longest are given up") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.dials_max = 4;
  options.unlinked_max = 20;
  TablePeer a(world, 1, options), b(world, 2);
  const bool by_id = GENERATE(true, false);
  for (std::uint16_t i = 1; i <= 1000; ++i) {
    const Address nobody{"far", i};
    world.network.swallow_dials(nobody, true);
    a.table->send({PeerId{by_id ? 1000U + i : 0U}, nobody}, ping(i));
    REQUIRE(a.table->unlinked() <= 20);
  }
  CHECK(a.table->unlinked() == 20);
  CHECK(a.table->counters().messages_dropped == 980);
  a.send(b, ping(1));  // in place of the oldest that waits
  CHECK(a.table->unlinked() == 20);
  CHECK(a.table->counters().messages_dropped == 981);
  // A peer that dials in gets the message at once, although its dial waits.
  b.send(a, ping(2));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  CHECK(a.table->unlinked() == 19);
  CHECK(a.failures.empty());
  CHECK(a.table->counters().links_dialed == 0);
}

TEST_CASE("many stated addresses of one peer do not add up") {
  World world(Kind::memory);
  TablePeer hub(world, 1);
  const auto stranger = world.make_transport();
  LinkPtr last;
  for (std::uint16_t port = 1; port <= 50; ++port) {
    const LinkPtr link = raw_dial(world, *stranger, hub.address);
    REQUIRE(world.run(introduce(*link, self(5, {"127.0.0.1", port}), kLong)).ok());
    REQUIRE(world.until([&] { return hub.table->counters().links_accepted == port; }));
    last = link;
  }
  CHECK(hub.table->links() == 1);
  // A former address of the peer leads nowhere.
  hub.send({"127.0.0.1", 1}, ping(1));
  CHECK(world.until([&] { return hub.failures.size() == 1; }));
  hub.send({"127.0.0.1", 50}, ping(2));
  const auto heard = world.run(read_message(*last));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(2));
}

TEST_CASE("a remote that does not read is abandoned after the time limit for one message") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.write_limit = std::chrono::milliseconds(50);
  options.queue_messages_max = 100'000;
  options.queue_bytes_max = std::size_t{1} << 30;
  TablePeer a(world, 1, options);
  const auto stranger = world.make_transport();
  const LinkPtr deaf = raw_dial(world, *stranger, a.address);
  const Address claimed{"127.0.0.1", 1};
  REQUIRE(world.run(introduce(*deaf, self(5, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return a.table->links() == 1; }));
  wire::Ack large;
  large.members.assign(2000, {PeerId{1}, "name", {"127.0.0.1", 1}, 0, {}, {}, 0, 0, {}});
  for (std::uint64_t i = 0; i < 100; ++i) a.send(claimed, large);
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].kind == LinkErrorKind::timed_out);
  CHECK(a.failures[0].at == claimed);
}

}  // namespace starling::transport
