// A member that relays: circuits of three link tables, its limits, its bandwidth, and its end.
#include "transport/dial/relay.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/transport/reach_peer.h"
#include "transport/dial/relay_pace.h"

namespace starling::transport {
namespace {

using namespace testing;

LinkTableOptions relaying(double bits_per_second = 1e9) {
  LinkTableOptions options;
  options.relay.bits_per_second = bits_per_second;
  return options;
}

// A relay, and two peers without an address, the second of which has a link with the relay.
struct Trio {
  explicit Trio(World& w, LinkTableOptions options = relaying())
      : world(w),
        relay(w, directory, 1, true, options),
        a(w, directory, 2, false),
        b(w, directory, 3, false) {
    settle_at(w, b, relay);
  }

  // A circuit from a to b: the inner links of both.
  std::pair<LinkPtr, LinkPtr> connect() {
    const std::size_t before = b.bulk.size();
    auto dialed = world.run(a.table->dial_bulk(through(b, relay, Way::relay)));
    INFO((dialed.ok() ? "" : dialed.error().message));
    REQUIRE(dialed.ok());
    CHECK(dialed->remote.id == b.id);
    REQUIRE(world.until([&] { return b.bulk.size() > before; }));
    CHECK(b.bulk.back().remote.id == a.id);
    return {dialed->link, b.bulk.back().link};
  }

  LinkError refused(Endpoint to) {
    auto dialed = world.run(a.table->dial_bulk(std::move(to)));
    REQUIRE_FALSE(dialed.ok());
    return dialed.error();
  }

  World& world;
  Directory directory;
  ReachPeer relay, a, b;
};

}  // namespace

TEST_CASE("two peers that cannot be dialed exchange chunks through a relay") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  auto [near, far] = trio.connect();
  for (int round = 0; round < 3; ++round) check_passes(world, near, far);
  REQUIRE(trio.b.calls.size() == 1);
  CHECK(trio.b.calls[0].caller == trio.a.id);
  CHECK(trio.b.calls[0].purpose == wire::Purpose::relay);
  CHECK(trio.a.table->counters().bulk_dialed == 1);
  CHECK(trio.b.table->counters().calls_answered == 1);
  RelayCounters counters = trio.relay.table->counters().relay;
  CHECK(counters.circuits == 1);
  CHECK(counters.circuits_opened == 1);
  CHECK(counters.circuits_refused == 0);
  CHECK(counters.bytes > 6 * (std::size_t{1} << 20));
  CHECK(counters.bytes < 7 * (std::size_t{1} << 20));
  CHECK(trio.relay.bulk.empty());

  near->finish();
  REQUIRE(world.until([&] { return far->hung_up(); }));
  REQUIRE(world.run(write_bytes(far, chunk_frame(10))).ok());
  REQUIRE(world.run(near->read()).ok());
  far->close();
  CHECK(end_of(world, near) == LinkErrorKind::closed_by_peer);
  CHECK(world.until([&] { return trio.relay.table->counters().relay.circuits == 0; }));
}

TEST_CASE("both ends of a circuit see that the relay has ended") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  auto [near, far] = trio.connect();
  check_passes(world, near, far);
  const auto near_end = world.begin(near->read()), far_end = world.begin(far->read());
  trio.relay.table->close();
  REQUIRE(world.until([&] { return *near_end && *far_end; }));
  CHECK_FALSE((*near_end)->ok());
  CHECK_FALSE((*far_end)->ok());
}

TEST_CASE("a relay has four circuits at most for one requester, and a closed one makes room") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  std::vector<std::pair<LinkPtr, LinkPtr>> circuits;
  for (int k = 0; k < 4; ++k) circuits.push_back(trio.connect());
  const LinkError error = trio.refused(through(trio.b, trio.relay, Way::relay));
  CHECK(error.kind == LinkErrorKind::refused);
  CHECK(contains(error.message, "relays 4 circuits for " + to_string(trio.a.id)));
  CHECK(trio.relay.table->counters().relay.circuits_refused == 1);
  circuits.pop_back();
  trio.b.bulk.pop_back();
  REQUIRE(world.until([&] { return trio.relay.table->counters().relay.circuits == 3; }));
  const auto [near, far] = trio.connect();
  check_passes(world, near, far);
}

TEST_CASE(
    "a relay refuses targets without a link, peers that are not members, and everything without bandwidth") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  ReachPeer stranger(world, trio.directory, 4, false);
  LinkError error = trio.refused(through(stranger, trio.relay, Way::relay));
  CHECK(error.kind == LinkErrorKind::refused);
  CHECK(contains(error.message, "no connection with " + to_string(stranger.id)));
  error = trio.refused(through(trio.a, trio.relay, Way::relay));
  CHECK(contains(error.message, "two peers besides the relay"));

  trio.directory.members.erase(trio.a.id);
  error = trio.refused(through(trio.b, trio.relay, Way::relay));
  CHECK(error.kind == LinkErrorKind::refused);
  CHECK(contains(error.message, "only between members"));
  trio.directory.members.insert(trio.a.id);

  ReachPeer other(world, trio.directory, 5);
  settle_at(world, trio.b, other);
  error = trio.refused(through(trio.b, other, Way::relay));
  CHECK(contains(error.message, "does not relay"));
  CHECK(trio.relay.table->counters().relay.circuits_refused == 3);
  CHECK(trio.relay.table->counters().relay.circuits_opened == 0);
  CHECK(trio.b.calls.empty());
}

TEST_CASE("a target that does not answer is reported to the requester, and the place is free again") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  LinkTableOptions options = relaying();
  options.dial_limit = std::chrono::milliseconds(50);
  options.handshake_limit = std::chrono::seconds(1);
  options.relay.waiting_max = 1;
  Trio trio(world, options);
  trio.b.answers = false;
  const LinkError late = trio.refused(through(trio.b, trio.relay, Way::relay));
  CHECK(late.kind == LinkErrorKind::refused);
  CHECK(contains(late.message, "did not connect in time"));
  const auto first = world.begin(trio.a.table->dial_bulk(through(trio.b, trio.relay, Way::relay)));
  REQUIRE(world.until([&] { return trio.b.calls.size() == 2; }));
  const LinkError error = trio.refused(through(trio.b, trio.relay, Way::relay));
  CHECK(contains(error.message, "1 circuits wait"));
  REQUIRE(world.until([&] { return first->has_value(); }));
}

TEST_CASE("only the called peer with the number of the call gets a circuit") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  trio.b.answers = false;
  ReachPeer thief(world, trio.directory, 4, false);
  const auto waiting = world.begin(trio.a.table->dial_bulk(through(trio.b, trio.relay, Way::relay)));
  REQUIRE(world.until([&] { return trio.b.calls.size() == 1; }));
  const std::uint64_t number = trio.b.calls[0].number;
  const Endpoint relay{trio.relay.id, trio.relay.address};
  thief.table->answer_call(relay, wire::Purpose::relay, number);
  trio.b.table->answer_call(relay, wire::Purpose::relay, number + 1);
  REQUIRE(world.until([&] { return trio.relay.table->counters().relay.answers_refused == 2; }));
  CHECK_FALSE(waiting->has_value());
  trio.b.table->answer_call(relay, wire::Purpose::relay, number);
  REQUIRE(world.until([&] { return waiting->has_value() && trio.b.bulk.size() == 1; }));
  REQUIRE((*waiting)->ok());
  check_passes(world, (*waiting)->value().link, trio.b.bulk[0].link);
}

TEST_CASE("the requester notices that another peer than the target is at the end of a circuit") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Trio trio(world);
  ReachPeer liar(world, trio.directory, 4, false);
  // The relay and the other peer work together: it answers in place of the target.
  const auto transport = world.make_transport();
  const auto listener = transport->listen(anywhere(), [&](LinkPtr link) {
    spawn(world.executor(), [](LinkPtr outer, Transport& t) -> asio::awaitable<void> {
      Self relay_self = self(1, {});
      static_cast<void>(co_await admit(*outer, relay_self, kLong));
      static_cast<void>(co_await read_message(*outer));
      wire::Message agreed = wire::Circuit{PeerId{3}};
      static_cast<void>(co_await write_message(*outer, agreed));
      const LinkPtr inner = t.link_over(outer, TlsRole::accepter).value();
      Self liar_self = self(4, {});
      static_cast<void>(co_await admit(*inner, liar_self, kLong));
    }(link, *transport));
  });
  REQUIRE(listener.ok());
  const LinkError error = trio.refused({trio.b.id, (*listener)->address(), Way::relay, trio.relay.id});
  CHECK(error.kind == LinkErrorKind::other_peer);
}

TEST_CASE("a circuit on which nothing moves is closed") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  LinkTableOptions options = relaying();
  options.relay.stall_limit = std::chrono::seconds(1);
  Trio trio(world, options);
  auto [near, far] = trio.connect();
  end_of(world, near);
  end_of(world, far);
  CHECK(world.until([&] { return trio.relay.table->counters().relay.circuits == 0; }));
}

TEST_CASE("a relay passes no more bytes on than its bandwidth allows, and every circuit gets its turn") {
  World world(Kind::tcp);
  constexpr double kBitsPerSecond = 8e6;
  Trio trio(world, relaying(kBitsPerSecond));
  std::vector<std::pair<LinkPtr, LinkPtr>> circuits;
  for (int k = 0; k < 3; ++k) circuits.push_back(trio.connect());
  const auto bytes = [&] { return trio.relay.table->counters().relay.bytes; };
  const std::uint64_t begun_at = bytes();
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<std::optional<LinkResult<Frame>>>> reading;
  for (const auto& [near, far] : circuits) {
    world.begin(write_bytes(near, chunk_frame(25'000)));
    reading.push_back(world.begin(far->read()));
  }
  REQUIRE(world.until(
      [&] { return std::ranges::all_of(reading, [](const auto& one) { return one->has_value(); }); }));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const double passed = static_cast<double>(bytes() - begun_at);
  CHECK(passed > 300'000);
  // What was saved up, and the last frame of each circuit, whose time is counted after it.
  const double burst = kBitsPerSecond / 8 * 0.05 + 3 * 65'560;
  CHECK(passed <= kBitsPerSecond / 8 * seconds + burst);
}

TEST_CASE("pieces that share a bandwidth leave one after another, and an idle one saves up little") {
  RelayPace pace(8e6, std::chrono::milliseconds(10));  // 1 byte per microsecond
  using std::chrono::milliseconds;
  CHECK(pace.reserve(milliseconds(1000), 5'000) == milliseconds(990));
  CHECK(pace.reserve(milliseconds(1000), 20'000) == milliseconds(995));
  CHECK(pace.reserve(milliseconds(1000), 1'000) == milliseconds(1015));
  CHECK(pace.reserve(milliseconds(1001), 1'000) == milliseconds(1016));
  CHECK(pace.reserve(milliseconds(5000), 1'000) == milliseconds(4990));
}

}  // namespace starling::transport
