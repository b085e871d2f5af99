#include "transport/link_table.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/transport/world.h"
#include "transport/handshake.h"
#include "transport/message_io.h"

namespace starling::transport {
namespace {

using namespace testing;

wire::Hello hello(std::uint64_t id, const Address& address, const std::string& swarm = "flock") {
  return {swarm, PeerId{id}, "p" + std::to_string(id), address, wire::Purpose::control};
}

wire::Message ping(std::uint64_t sequence) {
  return wire::Ping{sequence, PeerId{9}, {}};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A table that listens, and the messages it received.
struct Peer {
  Peer(World& world, std::uint64_t id, LinkTableOptions options = {}, const std::string& swarm = "flock",
       Address at = anywhere())
      : transport(world.make_transport()),
        table(std::make_unique<LinkTable>(world.executor(), *transport, hello(id, at, swarm), events(),
                                          options)) {
    const auto listening = table->listen(at);
    REQUIRE(listening.ok());
    address = *listening;
    table->set_hello(hello(id, address, swarm));
  }

  LinkTableEvents events() {
    LinkTableEvents e;
    e.on_message = [this](PeerId from, const Address& at, wire::Message message) {
      senders.insert(from);
      last_address = at;
      if (const auto* p = std::get_if<wire::Ping>(&message)) {
        pings.push_back(p->sequence);
        if (answers) table->send(at, wire::Ack{p->sequence, {}});
      }
      if (const auto* a = std::get_if<wire::Ack>(&message)) acks.push_back(a->sequence);
    };
    e.on_unreachable = [this](const Address& at, LinkErrorKind kind, std::string sentence) {
      failures.push_back({at, kind, std::move(sentence)});
    };
    e.on_bulk = [this](LinkPtr link, wire::Hello remote) {
      bulk.push_back({std::move(link), std::move(remote)});
    };
    e.on_refused = [this](LinkErrorKind kind, std::string) { refused.push_back(kind); };
    return e;
  }

  struct Failure {
    Address at;
    LinkErrorKind kind;
    std::string sentence;
  };

  std::unique_ptr<Transport> transport;
  Address address;
  std::vector<std::uint64_t> pings, acks;
  std::set<PeerId> senders;
  Address last_address;
  std::vector<Failure> failures;
  std::vector<BulkLink> bulk;
  std::vector<LinkErrorKind> refused;
  bool answers = false;
  std::unique_ptr<LinkTable> table;
};

std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = from; i < to; ++i) all.push_back(i);
  return all;
}

// Checks that the peer still serves: a new peer gets an answer from it.
void check_still_serves(World& world, Peer& peer) {
  peer.answers = true;
  Peer probe(world, 1000);
  probe.table->send(peer.address, ping(77));
  CHECK(world.until([&] { return probe.acks == std::vector<std::uint64_t>{77}; }));
  peer.answers = false;
}

LinkPtr raw_dial(World& world, Transport& transport, const Address& to) {
  auto dialled = world.run(transport.dial(to, kLong));
  REQUIRE(dialled.ok());
  return *dialled;
}

}  // namespace

TEST_CASE("a message reaches the listener, and the answer returns over the same link") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1), b(world, 2);
  b.answers = true;
  for (std::uint64_t i = 0; i < 50; ++i) a.table->send(b.address, ping(i));
  REQUIRE(world.until([&] { return a.acks.size() == 50; }));
  CHECK(b.pings == numbers(0, 50));
  CHECK(a.acks == numbers(0, 50));
  CHECK(b.senders == std::set<PeerId>{PeerId{1}});
  CHECK(b.last_address == a.address);
  CHECK(a.table->links() == 1);
  CHECK(b.table->links() == 1);
  CHECK(a.table->counters().links_dialled == 1);
  CHECK(b.table->counters().links_dialled == 0);
  CHECK(b.table->counters().links_accepted == 1);
  CHECK(a.table->counters().messages_sent == 50);
  CHECK(a.table->counters().messages_received == 50);
  CHECK(a.table->counters().traffic.sent == b.table->counters().traffic.received);
  CHECK(a.failures.empty());
  CHECK(b.failures.empty());
}

TEST_CASE(
    "two peers that dial each other at once keep one link and lose no message, for either order of ids") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const bool a_lower = GENERATE(true, false);
  Peer a(world, a_lower ? 1 : 5), b(world, 3);
  for (std::uint64_t i = 0; i < 20; ++i) {
    a.table->send(b.address, ping(i));
    b.table->send(a.address, ping(i));
  }
  REQUIRE(world.until([&] { return a.pings.size() >= 20 && b.pings.size() >= 20; }));
  CHECK(a.table->counters().links_dialled == 1);
  CHECK(b.table->counters().links_dialled == 1);
  // The second link may still be closing.
  for (std::uint64_t i = 20; i < 40; ++i) {
    a.table->send(b.address, ping(i));
    b.table->send(a.address, ping(i));
  }
  REQUIRE(world.until([&] { return a.pings.size() >= 40 && b.pings.size() >= 40; }));
  for (Peer* p : {&a, &b}) {
    std::sort(p->pings.begin(), p->pings.end());
    CHECK(p->pings == numbers(0, 40));
    CHECK(p->table->links() == 1);
    CHECK(p->failures.empty());
    CHECK(p->table->counters().messages_dropped == 0);
  }
  CHECK(a.table->counters().links_dialled + b.table->counters().links_dialled == 2);
}

TEST_CASE("many peers that all send at once lose no message and keep one link per pair") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  constexpr std::uint64_t kPeers = 8, kMessages = 10;
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::uint64_t i = 0; i < kPeers; ++i)
    peers.push_back(std::make_unique<Peer>(world, 10 + (i * 5) % kPeers));
  for (std::uint64_t m = 0; m < kMessages; ++m) {
    for (auto& from : peers) {
      for (auto& to : peers) {
        if (from != to) from->table->send(to->address, ping(m));
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
  Peer a(world, 1);
  Address nobody;
  {
    Peer gone(world, 2);
    nobody = gone.address;
  }
  for (std::uint64_t i = 0; i < 5; ++i) a.table->send(nobody, ping(i));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  check_still_serves(world, a);
  REQUIRE(a.failures.size() == 1);
  CHECK(a.failures[0].at == nobody);
  CHECK(a.failures[0].kind == LinkErrorKind::unreachable);
  CHECK(holds(a.failures[0].sentence, to_string(nobody)));
  CHECK(a.table->counters().messages_dropped == 5);
  CHECK(a.table->counters()[LinkErrorKind::unreachable] == 1);
}

TEST_CASE("a remote that restarted on the same port is reached again") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1);
  auto b = std::make_unique<Peer>(world, 2);
  const Address at = b->address;
  a.table->send(at, ping(1));
  REQUIRE(world.until([&] { return b->pings.size() == 1; }));
  b.reset();
  Peer again(world, 3, {}, "flock", at);
  REQUIRE(world.until([&] { return a.table->links() == 0; }));
  a.table->send(at, ping(2));
  REQUIRE(world.until([&] { return again.pings.size() == 1; }));
  CHECK(again.pings.front() == 2);
  CHECK(a.failures.empty());
}

TEST_CASE("a link that breaks inside a frame is reported once, and queued messages go over a new one") {
  World world(Kind::memory);
  Peer a(world, 1), b(world, 2);
  world.network.cut_next_after(b.address, 1000);
  for (std::uint64_t i = 0; i < 40; ++i) a.table->send(b.address, ping(i));
  REQUIRE(world.until([&] { return !b.pings.empty() && b.pings.back() == 39; }));
  REQUIRE(a.failures.size() == 1);
  CHECK(a.failures[0].at == b.address);
  CHECK(a.failures[0].kind == LinkErrorKind::broken);
  CHECK(a.table->counters().links_dialled == 2);
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
  Peer a(world, 1, options), b(world, 2);
  for (std::uint64_t i = 0; i < 10; ++i) a.table->send(b.address, ping(i));
  CHECK(a.table->counters().messages_dropped == 6);
  REQUIRE(world.until([&] { return b.pings.size() == 4; }));
  CHECK(b.pings == numbers(6, 10));

  LinkTableOptions by_bytes;
  by_bytes.queue_bytes_max = 1000;
  Peer c(world, 3, by_bytes);
  const std::size_t each = message_frame(ping(150)).size();
  for (std::uint64_t i = 0; i < 100; ++i) c.table->send(b.address, ping(100 + i));
  const std::uint64_t kept = 1000 / each;
  CHECK(c.table->counters().messages_dropped == 100 - kept);
  REQUIRE(world.until([&] { return b.pings.size() == 4 + kept; }));
  CHECK(b.pings.back() == 199);
}

TEST_CASE("foreign traffic is rejected and counted by reason, and the peer keeps serving") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer peer(world, 1);
  const auto stranger = world.make_transport();
  const auto greeting = message_frame(hello(2, {"127.0.0.1", 7002}));
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
  throw_at(damaged(greeting, 4, std::byte{2}), LinkErrorKind::bad_version);
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
  Peer peer(world, 1), friendly(world, 2);
  friendly.table->send(peer.address, ping(1));
  REQUIRE(world.until([&] { return peer.pings.size() == 1; }));

  const auto stranger = world.make_transport();
  const auto whole_body = wire::encode(ping(5));
  std::vector<std::byte> garbled(wire::kFrameHeaderBytes + 64,
                                 std::byte{0x5a});  // valid checksum, invalid FlatBuffer
  wire::write_control_header(Bytes(garbled).subspan(wire::kFrameHeaderBytes),
                             std::span(garbled).first<wire::kFrameHeaderBytes>());
  const auto good = message_frame(ping(2));
  const std::vector<std::pair<std::vector<std::byte>, LinkErrorKind>> cases = {
      {garbled, LinkErrorKind::malformed},
      {damaged(good, good.size() - 1, good.back() ^ std::byte{1}), LinkErrorKind::bad_checksum},
      {message_frame(hello(50, {"127.0.0.1", 7050})), LinkErrorKind::malformed},
      {message_frame(wire::StateHead{1, 1}), LinkErrorKind::malformed},
      {chunk_frame(3), LinkErrorKind::malformed},
      {{good.begin(), good.begin() + 30}, LinkErrorKind::broken},
  };
  std::uint64_t id = 50;
  for (const auto& [bytes, kind] : cases) {
    const Address claimed{"127.0.0.1", static_cast<std::uint16_t>(7000 + id)};
    const LinkPtr link = raw_dial(world, *stranger, peer.address);
    REQUIRE(world.run(introduce(*link, hello(id++, claimed), kLong)).ok());
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
  friendly.table->send(peer.address, ping(3));
  CHECK(world.until([&] { return peer.pings.size() == 2; }));
  CHECK(friendly.table->counters().links_dialled == 1);
  CHECK(friendly.failures.empty());
}

TEST_CASE("another swarm and the peer itself are rejected with a clear error") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1, {}, "a"), b(world, 2, {}, "b");
  a.table->send(b.address, ping(1));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].kind == LinkErrorKind::refused);
  CHECK(holds(a.failures[0].sentence, "swarm 'a' refused: this peer belongs to swarm 'b'"));
  CHECK(world.until([&] { return b.table->counters()[LinkErrorKind::wrong_swarm] == 1; }));

  a.table->send(a.address, ping(2));
  REQUIRE(world.until([&] { return a.failures.size() == 2; }));
  CHECK(holds(a.failures[1].sentence, "itself"));
  CHECK(world.until([&] { return a.table->counters()[LinkErrorKind::same_peer] == 1; }));
  CHECK(a.table->links() == 0);
}

TEST_CASE("an address with a foreign server is reported as not a Starling peer") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1);
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
  a.table->send(at, ping(1));
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].at == at);
  CHECK(a.failures[0].kind == LinkErrorKind::bad_magic);
  CHECK(holds(a.failures[0].sentence, to_string(at) + " is not a Starling peer"));
}

TEST_CASE("connections without a handshake are limited in number and time out") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.handshakes_max = 3;
  options.handshake_limit = std::chrono::milliseconds(200);
  Peer peer(world, 1, options);
  const auto stranger = world.make_transport();
  std::vector<LinkPtr> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(raw_dial(world, *stranger, peer.address));
  REQUIRE(world.until([&] { return peer.table->counters().handshakes_refused >= 2; }));
  CHECK(peer.table->handshakes() <= 3);
  REQUIRE(world.until([&] { return peer.table->handshakes() == 0; }));
  CHECK(peer.table->counters().handshake_timeouts == 3);
  CHECK(peer.table->counters().handshakes_refused == 2);
  CHECK(peer.table->counters()[LinkErrorKind::timed_out] == 3);
  options.handshake_limit = kLong;
  check_still_serves(world, peer);
}

TEST_CASE("bulk connections are handed to their owners after the handshake") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1), b(world, 2);
  const auto dialled = world.run(a.table->dial_bulk(b.address));
  REQUIRE(dialled.ok());
  CHECK(dialled->remote.id == PeerId{2});
  REQUIRE(world.until([&] { return b.bulk.size() == 1; }));
  CHECK(b.bulk[0].remote.id == PeerId{1});
  CHECK(b.bulk[0].remote.purpose == wire::Purpose::bulk);
  CHECK(a.table->links() == 0);

  const wire::Message offer = wire::ExchangeOffer{1, 2, 3, 4};
  REQUIRE(world.run(write_message(*dialled->link, offer)).ok());
  const std::vector<float> floats = {1, 2, 3};
  REQUIRE(world
              .run(write_chunk(*dialled->link, {1, 0, 3, wire::ChunkKind::offer},
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
  CHECK(dialled->link->is_open());
  CHECK(world.run(dialled->link->write(message_frame(offer))).ok());
  CHECK(world.run(b.bulk[0].link->read()).ok());
  CHECK(a.table->counters().traffic.sent == b.table->counters().traffic.received);
}

TEST_CASE("a failed bulk dial is reported only to its caller") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1), other(world, 2, {}, "other");
  const auto refused = world.run(a.table->dial_bulk(other.address));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == LinkErrorKind::refused);
  other.table->close();
  const auto gone = world.run(a.table->dial_bulk(other.address));
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().kind == LinkErrorKind::unreachable);
  CHECK(a.failures.empty());
}

TEST_CASE("idle links are closed silently and reopened when needed") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.idle_limit = std::chrono::milliseconds(20);
  Peer a(world, 1, options), b(world, 2);
  a.table->send(b.address, ping(1));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  REQUIRE(world.until([&] { return a.table->links() == 0 && b.table->links() == 0; }));
  b.table->send(a.address, ping(2));
  REQUIRE(world.until([&] { return a.pings.size() == 1; }));
  CHECK(a.failures.empty());
  CHECK(b.failures.empty());
}

TEST_CASE("the number of links is limited, and the least recently used is closed first") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.links_max = 2;
  Peer hub(world, 1, options), x(world, 2), y(world, 3), z(world, 4);
  hub.table->send(x.address, ping(1));
  REQUIRE(world.until([&] { return x.pings.size() == 1; }));
  hub.table->send(y.address, ping(1));
  REQUIRE(world.until([&] { return y.pings.size() == 1; }));
  hub.table->send(x.address, ping(2));
  REQUIRE(world.until([&] { return x.pings.size() == 2; }));
  hub.table->send(z.address, ping(1));
  REQUIRE(world.until([&] { return z.pings.size() == 1 && y.table->links() == 0; }));
  CHECK(hub.table->links() == 2);
  CHECK(x.table->links() == 1);
  CHECK(z.table->links() == 1);
  hub.table->send(y.address, ping(2));
  REQUIRE(world.until([&] { return y.pings.size() == 2; }));
  CHECK(hub.table->links() == 2);
  CHECK(hub.failures.empty());
}

TEST_CASE("a hub with hundreds of peers keeps few links, loses no message and reports no peer unreachable") {
  const bool memory = GENERATE(true, false);
  World world(memory ? Kind::memory : Kind::tcp);
  LinkTableOptions options;
  options.links_max = 16;
  Peer hub(world, 500, options);
  hub.answers = true;
  std::vector<std::unique_ptr<Peer>> others;
  for (std::uint64_t i = 0; i < (memory ? 250 : 120); ++i) {
    others.push_back(std::make_unique<Peer>(world, i < 60 ? i + 1 : i + 1000));  // lower and higher ids
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
    for (auto& o : others) o->table->send(hub.address, ping(round));
    CHECK(all([&](const Peer& o) { return o.acks.size() == n; }) <= 2 * options.links_max);
    // The hub dials them, a dozen at a time.
    for (std::size_t i = 0; i < others.size(); ++i) {
      hub.table->send(others[i]->address, ping(round));
      if (i % 12 == 11) REQUIRE(world.until([&] { return others[i]->pings.size() == n; }));
      REQUIRE(hub.table->links() <= options.links_max);
    }
    all([&](const Peer& o) { return o.pings.size() == n; });
    // Both directions at once.
    if (round == 3) {
      for (auto& o : others) o->table->send(hub.address, ping(9));
      for (auto& o : others) hub.table->send(o->address, ping(9));
      all([&](const Peer& o) { return o.acks.size() == 4 && o.pings.size() == 4; });
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
  Peer hub(world, 1, options), y(world, 3);
  const auto stranger = world.make_transport();
  const LinkPtr slow = raw_dial(world, *stranger, hub.address);
  const Address claimed{"127.0.0.1", 1};
  REQUIRE(world.run(introduce(*slow, hello(5, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return hub.table->links() == 1; }));
  wire::Ack large;  // a few of these fill the connection
  large.members.assign(2000, {PeerId{1}, "name", {"127.0.0.1", 1}, 0, {}, {}, 0, 0, {}});
  constexpr std::size_t kMessages = 10;
  for (std::size_t i = 0; i < kMessages; ++i) hub.table->send(claimed, large);
  hub.table->send(y.address, ping(1));
  REQUIRE(world.until([&] { return y.pings.size() == 1; }));
  CHECK(hub.table->counters().messages_sent < kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) REQUIRE(world.run(read_message(*slow)).ok());
  hub.table->send(claimed, ping(2));
  const auto heard = world.run(read_message(*slow));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(2));
  CHECK(hub.table->links() == 1);
  CHECK(hub.table->counters().links_dialled == 1);
  CHECK(hub.failures.empty());
}

TEST_CASE("a link whose remote vanished silently is eventually abandoned") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.idle_limit = std::chrono::milliseconds(20);
  Peer a(world, 1, options);
  Peer b(world, 2);  // the other end keeps its dead link
  b.answers = true;
  a.table->send(b.address, ping(1));
  REQUIRE(world.until([&] { return a.acks.size() == 1; }));
  world.network.swallow(b.address);
  // Messages are still sent although none is answered.
  SECTION("the remote is back: it is reached over a new link") {
    REQUIRE(world.until([&] {
      a.table->send(b.address, ping(2));
      return a.acks.size() > 1;
    }));
    CHECK(a.failures.empty());
    CHECK(a.table->counters().links_dialled == 2);
    CHECK(b.failures.empty());
  }
  SECTION("the remote is gone: it is reported unreachable") {
    b.table->close();
    REQUIRE(world.until([&] {
      a.table->send(b.address, ping(2));
      return !a.failures.empty();
    }));
    CHECK(a.failures[0].at == b.address);
    CHECK(a.failures[0].kind == LinkErrorKind::unreachable);
  }
}

TEST_CASE("hanging dials do not delay others and are limited in number") {
  World world(Kind::memory);
  LinkTableOptions options;
  options.dial_limit = std::chrono::milliseconds(100);
  Peer b(world, 2);
  const auto hang = [&](Peer& peer, std::uint16_t n) {
    for (std::uint16_t i = 1; i <= n; ++i) {
      const Address nobody{"far", i};
      world.network.swallow_dials(nobody, true);
      peer.table->send(nobody, ping(i));
    }
  };
  SECTION("a hundred in parallel") {
    options.dial_limit = std::chrono::seconds(30);
    Peer a(world, 1, options);
    hang(a, 100);
    a.table->send(b.address, ping(1));
    REQUIRE(world.until([&] { return b.pings.size() == 1; }));
    CHECK(a.failures.empty());
  }
  SECTION("more than the limit: the others wait") {
    options.dials_max = 4;
    Peer a(world, 1, options);
    hang(a, 10);
    a.table->send(b.address, ping(1));
    REQUIRE(world.until([&] { return b.pings.size() == 1; }));
    CHECK(a.failures.size() >= 8);
    REQUIRE(world.until([&] { return a.failures.size() == 10; }));
    CHECK(a.table->counters().messages_dropped == 10);
  }
}

TEST_CASE("one peer reached under two addresses keeps one link, and answers arrive") {
  World world(Kind::tcp);
  Peer a(world, 1), b(world, 2);
  b.answers = true;
  const Address by_name{"localhost", b.address.port};
  a.table->send(by_name, ping(1));
  a.table->send(b.address, ping(2));
  REQUIRE(world.until([&] { return a.acks.size() == 2; }));
  a.table->send(by_name, ping(3));
  a.table->send(b.address, ping(4));
  REQUIRE(world.until([&] { return a.acks.size() == 4; }));
  CHECK(a.table->links() == 1);
  CHECK(b.table->links() == 1);
  CHECK(a.failures.empty());
}

TEST_CASE("a peer that listens on every interface is answered at the address it sent from") {
  World world(Kind::tcp);
  Peer a(world, 1, {}, "flock", {"0.0.0.0", 0}), b(world, 2);
  b.answers = true;
  a.table->send(b.address, ping(1));
  REQUIRE(world.until([&] { return a.acks.size() == 1; }));
  CHECK(b.last_address == Address{"127.0.0.1", a.address.port});
}

TEST_CASE("a restarted peer replaces the previous instance at its address") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer hub(world, 1);
  const auto stranger = world.make_transport();
  const Address claimed{"127.0.0.1", 7777};
  const LinkPtr old = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*old, hello(100, claimed), kLong)).ok());
  const LinkPtr young = raw_dial(world, *stranger, hub.address);
  REQUIRE(world.run(introduce(*young, hello(101, claimed), kLong)).ok());
  const auto ended = world.run(old->read());
  REQUIRE_FALSE(ended.ok());
  CHECK(ended.error().kind == LinkErrorKind::closed_by_peer);
  CHECK(hub.table->links() == 1);
  hub.table->send(claimed, ping(8));
  const auto heard = world.run(read_message(*young));
  REQUIRE(heard.ok());
  CHECK(*heard == ping(8));
}

TEST_CASE("shutting down delivers queued messages first") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer a(world, 1), b(world, 2);
  for (std::uint64_t i = 0; i < 30; ++i) a.table->send(b.address, ping(i));
  world.run(a.table->shut_down(kLong));
  REQUIRE(world.until([&] { return b.pings.size() == 30; }));
  CHECK(a.table->links() == 0);
  CHECK(a.table->counters().messages_dropped == 0);
  CHECK(b.failures.empty());
  a.table->send(b.address, ping(99));  // no longer sent
  check_still_serves(world, b);
  CHECK(std::find(b.pings.begin(), b.pings.end(), 99) == b.pings.end());
}

TEST_CASE("a table can be destroyed while operations are pending") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Peer b(world, 2);
  for (int round = 0; round < 20; ++round) {
    auto a = std::make_unique<Peer>(world, 1);
    for (std::uint64_t i = 0; i < 3; ++i) a->table->send(b.address, ping(i));
    b.table->send(a->address, ping(0));
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

TEST_CASE("a remote that does not read is abandoned after the time limit for one message") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.write_limit = std::chrono::milliseconds(50);
  options.queue_messages_max = 100'000;
  options.queue_bytes_max = std::size_t{1} << 30;
  Peer a(world, 1, options);
  const auto stranger = world.make_transport();
  const LinkPtr deaf = raw_dial(world, *stranger, a.address);
  const Address claimed{"127.0.0.1", 1};
  REQUIRE(world.run(introduce(*deaf, hello(5, claimed), kLong)).ok());
  REQUIRE(world.until([&] { return a.table->links() == 1; }));
  wire::Ack large;
  large.members.assign(2000, {PeerId{1}, "name", {"127.0.0.1", 1}, 0, {}, {}, 0, 0, {}});
  for (std::uint64_t i = 0; i < 100; ++i) a.table->send(claimed, large);
  REQUIRE(world.until([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0].kind == LinkErrorKind::timed_out);
  CHECK(a.failures[0].at == claimed);
}

}  // namespace starling::transport
