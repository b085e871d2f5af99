// Peers without an address: calls, tries to dial, and links that are kept because they cannot be dialed
// again.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/transport/reach_peer.h"

namespace starling::transport {
namespace {

using namespace testing;

LinkTableOptions hasty() {
  LinkTableOptions options;
  options.dial_limit = options.handshake_limit = std::chrono::seconds(1);
  return options;
}

}  // namespace

TEST_CASE("messages that wait for a called peer arrive in order on the link that it makes") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer home(world, d, 1), caller(world, d, 2), target(world, d, 3, false);
  settle_at(world, target, home);
  for (std::uint64_t k = 1; k <= 20; ++k) caller.table->send(through(target, home, Way::call), ping(k));
  REQUIRE(world.until([&] { return target.pings.size() == 20; }));
  CHECK(target.pings == numbers(1, 21));
  CHECK(caller.pings == std::vector<std::uint64_t>{0});
  CHECK(caller.last_address == Address{});
  REQUIRE(target.calls.size() == 1);
  CHECK(target.calls[0].purpose == wire::Purpose::control);
  CHECK(target.calls[0].number != 0);
  CHECK(caller.table->calls() == 0);
  CHECK(caller.table->counters().calls_sent == 1);

  caller.table->send({target.id, {}}, ping(21));  // the link stays
  REQUIRE(world.until([&] { return target.pings.size() == 21; }));
  CHECK(home.calls.size() == 1);
  CHECK(caller.failures.empty());
}

TEST_CASE("a call that nobody answers is reported once, with the receiver and its home") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer home(world, d, 1), caller(world, d, 2, true, hasty()), target(world, d, 3, false);
  settle_at(world, target, home);
  target.answers = false;
  const Endpoint to = through(target, home, Way::call);
  for (std::uint64_t k = 0; k < 5; ++k) caller.table->send(to, ping(k));
  REQUIRE(world.until([&] { return !caller.failures.empty(); }));
  check_still_serves(world, *std::make_unique<TablePeer>(world, 50));
  REQUIRE(caller.failures.size() == 1);
  CHECK(caller.failures[0].to == to);
  CHECK(caller.failures[0].kind == LinkErrorKind::unreachable);
  CHECK(contains(caller.failures[0].sentence, to_string(target.id)));
  CHECK(contains(caller.failures[0].sentence, to_string(home.id)));
  CHECK(caller.table->counters().messages_dropped == 5);
  CHECK(caller.table->counters().calls_unanswered == 1);
  CHECK(caller.table->unlinked() == 0);
}

TEST_CASE("beyond the limit of calls the oldest one is given up") {
  World world(GENERATE(Kind::tcp, Kind::memory));
  Directory d;
  LinkTableOptions options;
  options.calls_max = 3;
  ReachPeer home(world, d, 1), caller(world, d, 2, true, options);
  for (std::uint64_t id = 10; id < 15; ++id)
    caller.table->send({PeerId{id}, home.address, Way::call, home.id}, ping(id));
  REQUIRE(world.until([&] { return caller.failures.size() == 2; }));
  CHECK(caller.failures[0].to.id == PeerId{10});
  CHECK(caller.failures[1].to.id == PeerId{11});
  CHECK(caller.table->calls() == 3);
}

TEST_CASE("a receiver without an address and without a link is unreachable") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer a(world, d, 1);
  a.table->send({PeerId{9}, {}}, ping(1));
  REQUIRE(world.until([&] { return a.failures.size() == 1; }));
  CHECK(a.failures[0].kind == LinkErrorKind::unreachable);
  CHECK(a.failures[0].to.id == PeerId{9});
  CHECK(contains(a.failures[0].sentence, "has no address"));
  const Endpoint nobody{PeerId{9}, {}};
  const auto bulk = world.run(a.table->dial_bulk(nobody));
  REQUIRE_FALSE(bulk.ok());
  CHECK(bulk.error().kind == LinkErrorKind::unreachable);
  a.table->send({}, ping(2));
  CHECK(a.table->counters().messages_dropped == 2);
  CHECK(a.table->unlinked() == 0);
}

TEST_CASE("the addresses of a peer are tried in order, and another peer's does not count") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer a(world, d, 1), b(world, d, 2), other(world, d, 3);
  Address nobody;
  {
    TablePeer gone(world, 50);
    nobody = gone.address;
  }
  const Endpoint to{b.id, nobody, Way::dial, {}, {other.address, b.address}};
  a.table->send(to, ping(1));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  CHECK(other.pings.empty());
  CHECK(a.failures.empty());
  const auto bulk = world.run(a.table->dial_bulk(to));
  REQUIRE(bulk.ok());
  CHECK(bulk->remote.id == b.id);
  CHECK(world.until([&] { return b.bulk.size() == 1; }));
}

TEST_CASE("a bulk connection with a called peer is one that it dialed and serves") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer home(world, d, 1), caller(world, d, 2), target(world, d, 3, false);
  settle_at(world, target, home);
  auto dialed = world.run(caller.table->dial_bulk(through(target, home, Way::call)));
  REQUIRE(dialed.ok());
  CHECK(dialed->remote.id == target.id);
  REQUIRE(world.until([&] { return target.bulk.size() == 1; }));
  CHECK(target.bulk[0].remote.id == caller.id);
  CHECK(caller.bulk.empty());
  check_passes(world, dialed->link, target.bulk[0].link);
  CHECK(caller.table->counters().bulk_dialed == 1);
  CHECK(caller.table->calls() == 0);
}

TEST_CASE("the answer of another peer, or with another number, is refused and does not end the call") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer home(world, d, 1), caller(world, d, 2), target(world, d, 3, false), thief(world, d, 4, false);
  settle_at(world, target, home);
  target.answers = false;
  const auto waiting = world.begin(caller.table->dial_bulk(through(target, home, Way::call)));
  REQUIRE(world.until([&] { return target.calls.size() == 1; }));
  const std::uint64_t number = target.calls[0].number;
  const Endpoint to{caller.id, caller.address};
  thief.table->answer_call(to, wire::Purpose::bulk, number);
  target.table->answer_call(to, wire::Purpose::bulk, number + 1);
  REQUIRE(world.until([&] { return caller.refused.size() == 2; }));
  CHECK(caller.refused == std::vector(2, LinkErrorKind::refused));
  CHECK(caller.table->counters().answers_refused == 2);
  CHECK_FALSE(waiting->has_value());
  target.table->answer_call(to, wire::Purpose::bulk, number);
  REQUIRE(world.until([&] { return waiting->has_value(); }));
  REQUIRE((*waiting)->ok());
  CHECK((*waiting)->value().remote.id == target.id);
  CHECK(caller.bulk.empty());

  // The same number once more.
  target.table->answer_call(to, wire::Purpose::bulk, number);
  CHECK(world.until([&] { return caller.refused.size() == 3; }));
}

TEST_CASE("a bulk call that nobody answers fails with the receiver and its home") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer home(world, d, 1), caller(world, d, 2, true, hasty());
  const Endpoint to{PeerId{9}, home.address, Way::call, home.id};
  const auto dialed = world.run(caller.table->dial_bulk(to));
  REQUIRE_FALSE(dialed.ok());
  CHECK(dialed.error().kind == LinkErrorKind::unreachable);
  CHECK(contains(dialed.error().message, to_string(PeerId{9})));
  CHECK(contains(dialed.error().message, to_string(home.id)));
  CHECK(caller.table->counters().calls_unanswered == 1);
}

TEST_CASE("an answer to a caller that is gone is counted and has no other effect") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer target(world, d, 3, false);
  Address nobody;
  {
    TablePeer gone(world, 50);
    nobody = gone.address;
  }
  target.table->answer_call({PeerId{50}, nobody}, wire::Purpose::bulk, 7);
  target.table->answer_call({PeerId{50}, nobody}, wire::Purpose::relay, 7);
  target.table->answer_call({PeerId{50}, nobody}, wire::Purpose::control, 7);
  REQUIRE(world.until([&] { return target.table->counters().answers_failed == 3; }));
  CHECK(target.failures.empty());
  CHECK(target.bulk.empty());
}

TEST_CASE("a try to dial makes a new connection and leaves the links of the two peers alone") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer a(world, d, 1), b(world, d, 2);
  b.send(a, ping(1));
  REQUIRE(world.until([&] { return a.pings.size() == 1; }));
  const Endpoint there{b.id, b.address};
  for (int k = 0; k < 3; ++k) CHECK(world.run(a.table->try_dial(there)).ok());
  a.send(b, ping(2));
  REQUIRE(world.until([&] { return b.pings.size() == 1; }));
  CHECK(b.table->counters().links_dialed == 1);
  CHECK(b.table->counters().links_accepted == 0);
  CHECK(a.table->counters().links_dialed == 0);
  CHECK(a.table->counters().links_accepted == 1);
  CHECK(a.table->links() == 1);
  CHECK(b.table->links() == 1);
  CHECK(b.bulk.empty());
  CHECK(b.refused.empty());
  CHECK(a.failures.empty());
  CHECK(b.failures.empty());
  CHECK(b.table->counters().relay.circuits_refused == 0);
}

TEST_CASE("a try to dial fails if nobody or another peer is there, and does not try further addresses") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  ReachPeer a(world, d, 1), b(world, d, 2);
  const Endpoint wrong{PeerId{9}, b.address};
  auto tried = world.run(a.table->try_dial(wrong));
  REQUIRE_FALSE(tried.ok());
  CHECK(tried.error().kind == LinkErrorKind::other_peer);
  Address nobody;
  {
    TablePeer gone(world, 50);
    nobody = gone.address;
  }
  const Endpoint gone{b.id, nobody, Way::dial, {}, {b.address}};
  tried = world.run(a.table->try_dial(gone));
  REQUIRE_FALSE(tried.ok());
  CHECK(tried.error().kind == LinkErrorKind::unreachable);
  const Endpoint none{b.id, {}};
  tried = world.run(a.table->try_dial(none));
  REQUIRE_FALSE(tried.ok());
  CHECK(tried.error().kind == LinkErrorKind::unreachable);
  CHECK(a.table->links() == 0);
}

TEST_CASE("sixteen peers are tried at once, and no more") {
  World world(Kind::memory);
  Directory d;
  ReachPeer a(world, d, 1), b(world, d, 2);
  world.network.swallow_dials(b.address, true);
  const Endpoint there{b.id, b.address};
  std::vector<std::shared_ptr<std::optional<LinkStatus>>> tries;
  for (int k = 0; k < 17; ++k) tries.push_back(world.begin(a.table->try_dial(there)));
  REQUIRE(world.until([&] { return tries.back()->has_value(); }));
  CHECK((*tries.back())->error().kind == LinkErrorKind::busy);
  CHECK_FALSE(tries.front()->has_value());
}

TEST_CASE("links with peers without an address stay when they are idle or many, others do not") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Directory d;
  LinkTableOptions options;
  options.links_max = 2;
  options.unaddressed_max = 3;
  options.idle_limit = std::chrono::seconds(3);
  ReachPeer home(world, d, 1, true, options);
  std::vector<std::unique_ptr<ReachPeer>> others;
  const auto linked = [&](const auto& peer) { return peer->table->links() == 1; };
  const auto join = [&](std::uint64_t id, bool listens) {
    others.push_back(std::make_unique<ReachPeer>(world, d, id, listens));
    settle_at(world, *others.back(), home);
  };
  for (std::uint64_t id = 10; id < 13; ++id) join(id, false);
  for (std::uint64_t id = 20; id < 24; ++id) join(id, true);
  REQUIRE(world.until([&] { return home.table->links() == 5; }));
  CHECK(std::all_of(others.begin(), others.begin() + 3, linked));

  join(13, false);  // the least recently used of those without an address makes room
  REQUIRE(world.until([&] { return !linked(others[0]); }));
  CHECK(std::all_of(others.begin() + 1, others.begin() + 3, linked));
  // The others become idle. Those without an address say something, like a member that pings its homes.
  std::uint64_t said = 0;
  REQUIRE(world.until([&] {
    if (home.pings.size() >= said) {
      for (const auto& other : others)
        if (!other->address && linked(other)) other->send(home, ping(++said));
    }
    return home.table->links() == 3;
  }));
  CHECK(linked(others.back()));
  home.table->send({PeerId{13}, {}}, ping(7));
  CHECK(world.until([&] { return others.back()->pings.size() == 1; }));
  CHECK(home.failures.empty());
}

TEST_CASE("a listener on all IPv6 interfaces takes IPv4 connections, too") {
  World world(Kind::tcp);
  const auto transport = world.make_transport();
  std::vector<LinkPtr> accepted;
  const auto listening =
      transport->listen({"::", 0}, [&](LinkPtr link) { accepted.push_back(std::move(link)); });
  if (!listening.ok()) {
    WARN("skipped: no IPv6 here");
    return;
  }
  const std::uint16_t port = (*listening)->address().port;
  for (const std::string host : {"127.0.0.1", "::1"}) {
    const std::size_t before = accepted.size();
    const Address to{host, port};
    const auto dialed = world.run(transport->dial(to, kLong));
    REQUIRE(dialed.ok());
    REQUIRE(world.until([&] { return accepted.size() > before; }));
    CHECK(accepted.back()->remote().host == host);
  }
}

}  // namespace starling::transport
