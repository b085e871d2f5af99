// Delivery: links, queues, bulk connections, restarts and shutdown.
#include "transport/links/link_table.h"
#include "tests/contains.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/transport/table_peer.h"
#include "transport/trust/handshake.h"

namespace starling::transport {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("a message reaches the listener, and the answer returns over the same link") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), b(world, 2);
  b.answers = true;
  for (std::uint64_t i = 0; i < 50; ++i) a.send(b.address, ping(i));
  REQUIRE(world.until([&] { return a.acks.size() == 50; }));
  CHECK(b.pings == numbers(0, 50));
  CHECK(a.acks == numbers(0, 50));
  CHECK(b.senders == std::set<PeerId>{PeerId{1}});
  CHECK(b.last_address == a.address);
  CHECK(a.table->links() == 1);
  CHECK(b.table->links() == 1);
  CHECK(a.table->counters().links_dialed == 1);
  CHECK(b.table->counters().links_dialed == 0);
  CHECK(b.table->counters().links_accepted == 1);
  CHECK(a.table->counters().messages_sent == 50);
  CHECK(a.table->counters().messages_received == 50);
  CHECK(a.table->counters().traffic.sent == b.table->counters().traffic.received);
  CHECK(a.failures.empty());
  CHECK(b.failures.empty());
}

TEST_CASE("two peers that dial each other at once keep one link and lose no message") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const bool a_lower = GENERATE(true, false);
  TablePeer a(world, a_lower ? 1 : 5), b(world, 3);
  for (std::uint64_t i = 0; i < 20; ++i) {
    a.send(b.address, ping(i));
    b.send(a.address, ping(i));
  }
  REQUIRE(world.until([&] { return a.pings.size() >= 20 && b.pings.size() >= 20; }));
  // The second link may still be closing.
  for (std::uint64_t i = 20; i < 40; ++i) {
    a.send(b.address, ping(i));
    b.send(a.address, ping(i));
  }
  REQUIRE(world.until([&] { return a.pings.size() >= 40 && b.pings.size() >= 40; }));
  for (TablePeer* p : {&a, &b}) {
    std::sort(p->pings.begin(), p->pings.end());
    CHECK(p->pings == numbers(0, 40));
    CHECK(p->table->links() == 1);
    CHECK(p->failures.empty());
    CHECK(p->table->counters().messages_dropped == 0);
  }
  // The higher id dials again if its link ends before it has the other one's proof.
  CHECK((a_lower ? a : b).table->counters().links_dialed == 1);
  CHECK((a_lower ? b : a).table->counters().links_dialed <= 2);
}

TEST_CASE("many peers that all send at once lose no message and keep one link per pair") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  constexpr std::uint64_t kPeers = 8, kMessages = 10;
  std::vector<std::unique_ptr<TablePeer>> peers;
  for (std::uint64_t i = 0; i < kPeers; ++i)
    peers.push_back(std::make_unique<TablePeer>(world, 10 + (i * 5) % kPeers));
  for (std::uint64_t m = 0; m < kMessages; ++m) {
    for (auto& from : peers) {
      for (auto& to : peers) {
        if (from != to) from->send(to->address, ping(m));
      }
    }
  }
  REQUIRE(world.until([&] {
    return std::all_of(peers.begin(), peers.end(),
                       [](const auto& p) { return p->pings.size() == (kPeers - 1) * kMessages; });
  }));
  for (auto& p : peers) {
    CHECK(p->table->links() == kPeers - 1);
    CHECK(p->failures.empty());
  }
}

TEST_CASE("a failed dial is reported once with the address and drops its queued messages") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1);
  Address nobody;
  {
    TablePeer gone(world, 2);
    nobody = gone.address;
  }
  for (std::uint64_t i = 0; i < 5; ++i) a.send(nobody, ping(i));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  check_still_serves(world, a);
  REQUIRE(a.failures.size() == 1);
  CHECK(a.failures[0].at == nobody);
  CHECK(a.failures[0].kind == LinkErrorKind::unreachable);
  CHECK(contains(a.failures[0].sentence, to_string(nobody)));
  CHECK(a.table->counters().messages_dropped == 5);
  CHECK(a.table->counters()[LinkErrorKind::unreachable] == 1);
}

TEST_CASE("a remote that restarted on the same port is reached again") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1);
  auto b = std::make_unique<TablePeer>(world, 2);
  const Address at = b->address;
  a.send(at, ping(1));
  REQUIRE(world.until([&] { return b->pings.size() == 1; }));
  b.reset();
  TablePeer again(world, 3, {}, "test", at);
  REQUIRE(world.until([&] { return a.table->links() == 0; }));
  a.send(at, ping(2));
  REQUIRE(world.until([&] { return again.pings.size() == 1; }));
  CHECK(again.pings.front() == 2);
  CHECK(a.failures.empty());
}

TEST_CASE("a link broken inside a frame is reported once, and queued messages use a new one") {
  World world(Kind::memory);
  TablePeer a(world, 1), b(world, 2);
  world.network.cut_next_after(b.address, 1000);
  for (std::uint64_t i = 0; i < 40; ++i) a.send(b.address, ping(i));
  REQUIRE(world.until([&] { return !b.pings.empty() && b.pings.back() == 39; }));
  REQUIRE(a.failures.size() == 1);
  CHECK(a.failures[0].at == b.address);
  CHECK(a.failures[0].kind == LinkErrorKind::broken);
  CHECK(a.table->counters().links_dialed == 2);
  // Messages read before the break arrive, then the interrupted message and the rest; bytes in flight are
  // lost.
  CHECK(b.pings.size() >= 30);
  CHECK(std::is_sorted(b.pings.begin(), b.pings.end()));
  CHECK(a.table->counters().messages_dropped == 0);
}

TEST_CASE("a queue keeps the newest messages and counts those it drops") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.queue_messages_max = 4;
  TablePeer a(world, 1, options), b(world, 2);
  for (std::uint64_t i = 0; i < 10; ++i) a.send(b.address, ping(i));
  CHECK(a.table->counters().messages_dropped == 6);
  REQUIRE(world.until([&] { return b.pings.size() == 4; }));
  CHECK(b.pings == numbers(6, 10));

  LinkTableOptions by_bytes;
  by_bytes.queue_bytes_max = 1000;
  TablePeer c(world, 3, by_bytes);
  const std::size_t each = message_frame(ping(150)).size();
  for (std::uint64_t i = 0; i < 100; ++i) c.send(b.address, ping(100 + i));
  const std::uint64_t kept = 1000 / each;
  CHECK(c.table->counters().messages_dropped == 100 - kept);
  REQUIRE(world.until([&] { return b.pings.size() == 4 + kept; }));
  CHECK(b.pings.back() == 199);
}

TEST_CASE("bulk connections are handed to their owners after the handshake") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), b(world, 2);
  const auto dialed = world.run(a.table->dial_bulk({{}, b.address}));
  REQUIRE(dialed.ok());
  CHECK(dialed->remote.id == PeerId{2});
  REQUIRE(world.until([&] { return b.bulk.size() == 1; }));
  CHECK(b.bulk[0].remote.id == PeerId{1});
  CHECK(b.bulk[0].remote.purpose == wire::Purpose::bulk);
  CHECK(a.table->links() == 0);

  const wire::Message offer = wire::ExchangeOffer{1, 2, 3, 4};
  REQUIRE(world.run(write_message(*dialed->link, offer)).ok());
  const std::vector<float> floats = {1, 2, 3};
  REQUIRE(world
              .run(write_chunk(*dialed->link, {1, 0, 3, wire::ChunkKind::offer},
                               std::as_bytes(std::span(floats))))
              .ok());
  const auto heard = world.run(read_message(*b.bulk[0].link));
  REQUIRE(heard.ok());
  CHECK(*heard == offer);
  const auto chunk = world.run(b.bulk[0].link->read());
  REQUIRE(chunk.ok());
  CHECK(chunk->chunk.floats == 3);

  a.table->close();
  b.table->close();
  CHECK(dialed->link->is_open());
  CHECK(world.run(dialed->link->write(message_frame(offer))).ok());
  CHECK(world.run(b.bulk[0].link->read()).ok());
  CHECK(a.table->counters().traffic.sent == b.table->counters().traffic.received);
}

TEST_CASE("a failed bulk dial is reported only to its caller") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), other(world, 2, {}, "other");
  const auto refused = world.run(a.table->dial_bulk({{}, other.address}));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == LinkErrorKind::refused);
  other.table->close();
  const auto gone = world.run(a.table->dial_bulk({{}, other.address}));
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().kind == LinkErrorKind::unreachable);
  CHECK(a.failures.empty());
}

TEST_CASE("one peer reached under two addresses keeps one link, and answers arrive") {
  World world(Kind::tcp);
  TablePeer a(world, 1), b(world, 2);
  b.answers = true;
  const Address by_name{"localhost", b.address.port};
  a.send(by_name, ping(1));
  a.send(b.address, ping(2));
  REQUIRE(world.until([&] { return a.acks.size() == 2; }));
  a.send(by_name, ping(3));
  a.send(b.address, ping(4));
  REQUIRE(world.until([&] { return a.acks.size() == 4; }));
  CHECK(a.table->links() == 1);
  CHECK(b.table->links() == 1);
  CHECK(a.failures.empty());
}

TEST_CASE("a peer that listens on every interface is answered at the address it sent from") {
  World world(Kind::tcp);
  TablePeer a(world, 1, {}, "test", {"0.0.0.0", 0}), b(world, 2);
  b.answers = true;
  a.send(b.address, ping(1));
  REQUIRE(world.until([&] { return a.acks.size() == 1; }));
  CHECK(b.last_address == Address{"127.0.0.1", a.address.port});
}

TEST_CASE("two peers that state one address keep their links, and each gets its own messages") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer hub(world, 1);
  const auto stranger = world.make_transport();
  const Address claimed{"127.0.0.1", 7777};
  const auto hears = [&](const LinkPtr& link, std::uint64_t sequence) {
    const auto heard = world.run(read_message(*link));
    return heard.ok() && *heard == ping(sequence);
  };
  const LinkPtr old = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*old, self(100, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 1; }));
  const LinkPtr young = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*young, self(101, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 2; }));
  hub.table->send({PeerId{100}, claimed}, ping(1));
  hub.table->send({PeerId{101}, claimed}, ping(2));
  CHECK(hears(old, 1));
  CHECK(hears(young, 2));
  // Without an id the last one to say that it listens there gets the message.
  hub.send(claimed, ping(3));
  CHECK(hears(young, 3));
  CHECK(hub.table->links() == 2);
  CHECK(hub.table->counters().links_dialed == 0);
}

TEST_CASE("a peer that states the address of another one does not get its messages") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer hub(world, 1), honest(world, 2);
  const bool by_id = GENERATE(true, false);
  hub.table->send({by_id ? honest.id : PeerId{}, honest.address}, ping(1));
  REQUIRE(world.until([&] { return honest.pings.size() == 1; }));
  const auto stranger = world.make_transport();
  const LinkPtr thief = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*thief, self(66, honest.address), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 2; }));
  hub.send(honest, ping(2));
  hub.send(honest.address, ping(3));
  REQUIRE(world.until([&] { return honest.pings.size() == 3; }));
  CHECK(honest.table->links() == 1);
  CHECK(hub.table->counters().links_dialed == 1);
  hub.table->send({PeerId{66}, honest.address}, ping(4));
  const auto heard = world.run(read_message(*thief));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(4));
}

TEST_CASE("a link serves its peer whatever the address") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), b(world, 2);
  a.send(b, ping(1));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  a.table->send({b.id, {"127.0.0.1", 1}}, ping(2));
  REQUIRE(world.until([&] { return b.pings.size() == 2; }));
  CHECK(a.failures.empty());
  CHECK(a.table->counters().links_dialed == 1);
}

TEST_CASE("another peer at the address does not get the messages, but keeps its link") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), b(world, 2);
  for (std::uint64_t i = 0; i < 3; ++i) a.table->send({PeerId{9}, b.address}, ping(i));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].kind == LinkErrorKind::other_peer);
  CHECK(a.failures[0].id == PeerId{9});
  CHECK(a.failures[0].at == b.address);
  CHECK(a.failures[0].sentence ==
        to_string(b.address) + " is now p2 (0000000000000002), not 0000000000000009");
  CHECK(a.table->counters()[LinkErrorKind::other_peer] == 1);
  CHECK(a.table->counters().messages_dropped == 3);
  CHECK(a.table->links() == 1);
  a.send(b, ping(7));
  a.send(b.address, ping(8));
  REQUIRE(world.until([&] { return b.pings.size() == 2; }));
  CHECK(b.pings == numbers(7, 9));
  CHECK(a.table->counters().links_dialed == 1);

  const auto bulk = world.run(a.table->dial_bulk({PeerId{9}, b.address}));
  REQUIRE_FALSE(bulk.ok());
  CHECK(bulk.error().kind == LinkErrorKind::other_peer);
  CHECK(contains(bulk.error().message, "is now p2 (0000000000000002), not 0000000000000009"));
  CHECK(world.run(a.table->dial_bulk({b.id, b.address})).ok());
  CHECK(a.failures.size() == 1);
}

TEST_CASE("a peer that restarted with its identity replaces its former link") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer hub(world, 1);
  const auto stranger = world.make_transport();
  const Address claimed{"127.0.0.1", 7777};
  const LinkPtr old = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*old, self(100, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 1; }));
  const LinkPtr young = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*young, self(100, claimed), kLong)).ok());
  const auto ended = world.run(old->read());
  REQUIRE_FALSE(ended.ok());
  CHECK(ended.error().kind == LinkErrorKind::closed_by_peer);
  CHECK(hub.table->links() == 1);
  hub.table->send({PeerId{100}, claimed}, ping(8));
  const auto heard = world.run(read_message(*young));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(8));
}

TEST_CASE("shutting down delivers queued messages first") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer a(world, 1), b(world, 2);
  for (std::uint64_t i = 0; i < 30; ++i) a.send(b.address, ping(i));
  world.run(a.table->shut_down(kLong));
  REQUIRE(world.until([&] { return b.pings.size() == 30; }));
  CHECK(a.table->links() == 0);
  CHECK(a.table->counters().messages_dropped == 0);
  CHECK(b.failures.empty());
  a.send(b.address, ping(99));  // no longer sent
  check_still_serves(world, b);
  CHECK(std::find(b.pings.begin(), b.pings.end(), 99) == b.pings.end());
}

TEST_CASE("a table can be destroyed while operations are pending") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  TablePeer b(world, 2);
  for (int round = 0; round < 20; ++round) {
    auto a = std::make_unique<TablePeer>(world, 1);
    for (std::uint64_t i = 0; i < 3; ++i) a->send(b.address, ping(i));
    b.send(a->address, ping(0));
    int turns = 0;
    REQUIRE(world.until([&] { return ++turns > round; }));
    a->table.reset();
    // Its transport must outlive its last dial.
    static_cast<void>(world.run(a->transport->dial(b.address, kLong)));
    int more = 0;
    asio::post(world.io, [&] { more = 1; });
    REQUIRE(world.until([&] { return more == 1; }));
  }
  check_still_serves(world, b);
}

}  // namespace starling::transport
