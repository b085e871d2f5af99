// One exchange at a time: rejected, aborted, broken, and over kept connections.
#include "node/exchange/exchanger.h"

#include <utility>

#include "tests/node/eleven_chunks.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using wire::ChunkKind;
using wire::RefusalReason;

}  // namespace

TEST_CASE("an exchange leaves both replicas at their mean, and the next one uses the same connection") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    TwoPeers two(kind);
    REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
    auto mean = kA;
    for (std::size_t i = 0; i < kFloats; ++i) mean[i] = 0.5f * (kA[i] + kB[i]);
    REQUIRE(near(two.a.values(), mean));
    REQUIRE(near(two.b.values(), mean));
    REQUIRE(two.a.counters().distance.value() > 0.5);
    for (int i = 0; i < 5; ++i) REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
    REQUIRE(two.a.links->counters().bulk_dialed == 1);
    REQUIRE(two.a.counters().half_applied_chunks == 0);
    REQUIRE(two.world.until([&] { return two.b.answers_ended == 6; }));
    REQUIRE(two.b.answers_completed == 6);
    REQUIRE(two.b.mixer->counters().answered == 6 * kChunks);
  }
}

// ---- refusals ----

TEST_CASE("an offer to a peer without parameters is rejected, and the connection serves later offers") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer a(world, 1), b(world, 2);
  a.attach(kA, kChunk);
  REQUIRE(exchange(world, a, b) == Outcome::rejected);
  REQUIRE(a.values() == kA);
  REQUIRE(b.offered == 0);
  b.attach(kB, kChunk);
  REQUIRE(exchange(world, a, b) == Outcome::completed);
  REQUIRE(a.links->counters().bulk_dialed == 1);
  REQUIRE(a.counters().half_applied_chunks == 0);
}

TEST_CASE("an offer for another model is rejected and nothing is mixed or lent") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer a(world, 1), other_names(world, 2), other_length(world, 3), other_chunks(world, 4);
  a.attach(kA, kChunk);
  other_names.attach(kB, kChunk, kFingerprint + 1);
  other_length.attach(std::vector<float>(kFloats + 1, 1.0f), kChunk);
  other_chunks.attach(kB, kChunk + 1);
  for (TestPeer* b : {&other_names, &other_length, &other_chunks}) {
    const auto before = b->values();
    REQUIRE(exchange(world, a, *b) == Outcome::rejected);
    REQUIRE(exchange(world, a, *b) == Outcome::rejected);
    REQUIRE(a.values() == kA);
    REQUIRE(b->values() == before);
    REQUIRE(b->offered == 0);
  }
  REQUIRE(a.links->counters().bulk_dialed == 3);
  REQUIRE(a.counters().half_applied_chunks == 0);
  require_well(world, a);
}

TEST_CASE("an offer that the core declines is rejected, and the connection is used again") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  TwoPeers two(kind);
  two.b.decide = [] { return Decision{false, RefusalReason::busy}; };
  for (int i = 0; i < 3; ++i) REQUIRE(exchange(two.world, two.a, two.b) == Outcome::rejected);
  REQUIRE(two.a.values() == kA);
  REQUIRE(two.b.values() == kB);
  REQUIRE(two.b.offered == 3);
  REQUIRE(two.b.answers_ended == 0);
  two.b.decide = nullptr;
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  REQUIRE(two.a.links->counters().bulk_dialed == 1);
  REQUIRE(two.a.counters().half_applied_chunks == 0);
}

TEST_CASE("an exchange with no peer, or with another instance than meant, is aborted and harmless") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  TwoPeers two(kind);
  two.a.exchanger->begin(1, {PeerId{77}, two.b.address});
  REQUIRE(two.world.until([&] { return two.a.ended.size() == 1; }));
  const Address gone = TestPeer(two.world, 3).address;
  two.a.exchanger->begin(2, {PeerId{3}, gone});
  REQUIRE(two.world.until([&] { return two.a.ended.size() == 2; }));
  for (const auto& ended : two.a.ended) REQUIRE(ended.outcome == Outcome::aborted);
  REQUIRE(two.a.values() == kA);
  REQUIRE(two.b.values() == kB);
  REQUIRE(two.a.counters().half_applied_chunks == 0);
  require_well(two.world, two.a);
}

// ---- aborts ----

TEST_CASE("an aborted exchange ends its loans, counts a window of chunks and makes no event") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer a(world, 1);
  a.attach(kA, kChunk);
  Stranger silent(world, 2);
  a.exchanger->begin(1, {silent.id, silent.address});
  silent.await_dial();
  REQUIRE(silent.hear_message<wire::ExchangeOffer>().exchange == 1);
  for (std::size_t chunk = 0; chunk < kWindow; ++chunk) {
    const auto frame = silent.hear();
    REQUIRE(frame);
    REQUIRE(frame->chunk.offset == chunk * kChunk);
    REQUIRE(floats_of(*frame) == chunk_of(kA, chunk));
  }
  SECTION("by the core") {
    a.exchanger->abort(2);  // another exchange: nothing happens
    REQUIRE(a.counters().half_applied_chunks == 0);
    a.exchanger->abort(1);
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE_FALSE(silent.hear());  // nothing was sent beyond the window
    require_well(world, a);
    REQUIRE(a.ended.size() == 1);  // the one of require_well
  }
  SECTION("by closing") {
    a.exchanger->close();
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE_FALSE(silent.hear());
    REQUIRE(a.ended.empty());
  }
  SECTION("by destruction, while the loop runs") {
    a.exchanger.reset();
    a.arena.reset();
    REQUIRE_FALSE(silent.hear());
    REQUIRE(a.ended.empty());
  }
}

TEST_CASE("an exchange that is aborted while it is dialed never begins") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  TwoPeers two(kind);
  two.a.begin(two.b);
  two.a.exchanger->abort(1);
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  REQUIRE(two.a.ended.size() == 1);
  REQUIRE(two.b.offered == 1);
}

TEST_CASE("a peer that falls silent in an exchange or a copy is disconnected after the stall limit") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.stall = std::chrono::milliseconds(30);
  World world(kind);
  TestPeer a(world, 1, options);
  a.attach(kA, kChunk);
  Stranger silent(world, 2);
  SECTION("an initiator, after its offer") {
    silent.dial(a);
    REQUIRE(silent.say(silent.offer(a, kChunk)));
    REQUIRE(world.until([&] { return a.answers_ended == 1; }));
    REQUIRE(a.values() == kA);
    REQUIRE(a.answers_completed == 0);
  }
  SECTION("an initiator, after some chunks") {
    silent.dial(a);
    REQUIRE(silent.say(silent.offer(a, kChunk)));
    for (std::size_t chunk = 0; chunk < 4; ++chunk) {
      if (!silent.say(head_of(ChunkKind::offer, chunk), chunk_of(kB, chunk))) break;  // on a slow machine
    }
    REQUIRE(world.until([&] { return a.answers_ended == 1; }));
    REQUIRE(a.answers_completed == 0);
    REQUIRE(shifted_chunks(kA, kB, a.values(), kB, kChunk) <= 4);
  }
  SECTION("a donor") {
    a.exchanger->fetch_state({silent.id, silent.address});
    REQUIRE(world.until([&] { return !a.states_lost.empty(); }));
    REQUIRE(a.values() == kA);
  }
  REQUIRE(world.until([&] { return a.exchanger->servers() == 0; }));
  REQUIRE(a.links->counters()[transport::LinkErrorKind::timed_out] <= 1);
  require_well(world, a, kTries);
}

TEST_CASE("a partner may hold an offer beyond any stall limit: only the core aborts the exchange") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const bool initiator_is_short = GENERATE(true, false);
  ExchangerOptions short_stall = steady();
  short_stall.stall = std::chrono::milliseconds(5);
  World world(kind);
  TestPeer a(world, 1, initiator_is_short ? short_stall : steady());
  TestPeer b(world, 2, initiator_is_short ? steady() : short_stall);
  a.attach(kA, kChunk);
  b.attach(kB, kChunk);
  std::vector<std::uint64_t> held;
  b.undecided = [&](PeerId from, std::uint64_t exchange) {
    if (from == a.id) return held.push_back(exchange);
    b.exchanger->answer({from, exchange, true, {}, {}});
  };
  a.begin(b);
  REQUIRE(world.until([&] { return held.size() == 1; }));
  // Time passes: remotes that begin exchanges with the impatient peer after that are disconnected for their
  // silence.
  for (std::uint64_t i = 0; i < 5; ++i) {
    Stranger silent(world, 10 + i);
    silent.dial(initiator_is_short ? a : b);
    REQUIRE(silent.say(silent.offer(a, kChunk)));
    silent.hear_the_end();
  }
  REQUIRE(world.until([&] { return a.exchanger->servers() + b.exchanger->servers() == 1; }));
  REQUIRE(a.ended.empty());
  REQUIRE(a.exchanger->under_way() == 1);
  const int others = b.answers_ended;
  SECTION("when it is answered, it continues") {
    b.exchanger->answer({a.id, 1, true, {}, {}});
    REQUIRE(world.until([&] { return a.ended.size() == 1; }));
    if (!initiator_is_short) return;  // such a responder may find the chunks too slow
    REQUIRE(a.ended.back().outcome == Outcome::completed);
    REQUIRE(near(a.values(), b.values()));
    REQUIRE(a.counters().half_applied_chunks == 0);
  }
  SECTION("when the core aborts it, nothing was mixed") {
    a.exchanger->abort(1);
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    REQUIRE(b.answers_ended == others + 1);
    REQUIRE(a.values() == kA);
    REQUIRE(b.values() == kB);
  }
}

// ---- a partner that dies ----

TEST_CASE("at any break of a connection the shifted chunks are among the half-applied ones") {
  constexpr std::size_t kMany = 40'000, kLarge = 5'000;
  const auto x = random_floats(kMany, 3), y = random_floats(kMany, 4);
  World world(Kind::memory);
  TestPeer a(world, 1);
  a.attach(x, kLarge);
  std::size_t shifted_most = 0;
  bool aborted = true;
  for (std::size_t turns = 0; aborted; ++turns) {
    CAPTURE(turns);
    TestPeer b(world, 2);
    b.attach(y, kLarge);
    a.arena->write(0, x);
    const auto counted = a.counters().half_applied_chunks;
    const std::size_t ended = a.ended.size();
    a.begin(b);
    for (std::size_t i = 0; i < turns && a.ended.size() == ended; ++i) {
      REQUIRE(world.until([met = false]() mutable { return std::exchange(met, true); }));  // one event
    }
    world.network.cut(b.address);
    world.network.cut_next_after(b.address, 1);  // if it had not been dialed yet
    REQUIRE(world.until([&] { return a.ended.size() > ended; }));
    aborted = a.ended.back().outcome == Outcome::aborted;
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    const auto half = a.counters().half_applied_chunks - counted;
    const auto shifted = shifted_chunks(x, y, a.values(), b.values(), kLarge);
    REQUIRE(half <= (aborted ? kWindow : 0));
    REQUIRE(shifted <= half);
    shifted_most = std::max(shifted_most, shifted);
    b.die();
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0; }));
  }
  REQUIRE(shifted_most > 0);
}

TEST_CASE("when either process ends in an exchange, the other continues, with at most a window shifted") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;  // more than the sockets hold
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const bool initiator_dies : {false, true}) {
      for (const std::uint64_t after : {1, 7, 30}) {
        CAPTURE(initiator_dies, after);
        World world(kind);
        TestPeer a(world, 1), b(world, 2);
        const auto x = random_floats(kMany, 3), y = random_floats(kMany, 4);
        a.attach(x, kLarge);
        b.attach(y, kLarge);
        a.begin(b);
        REQUIRE(world.until([&] { return b.mixer->counters().answered >= after; }));
        TestPeer& survivor = initiator_dies ? b : a;
        (initiator_dies ? a : b).die();
        if (initiator_dies) {
          REQUIRE(world.until([&] { return b.answers_ended == 1; }));
        } else {
          REQUIRE(world.until([&] { return a.ended.size() == 1; }));
          REQUIRE(a.ended.back().outcome == Outcome::aborted);
        }
        const std::size_t shifted = shifted_chunks(x, y, a.values(), b.values(), kLarge);
        REQUIRE(shifted <= a.counters().half_applied_chunks);
        REQUIRE(a.counters().half_applied_chunks <= kWindow);

        TestPeer c(world, 3);
        c.attach(y, kLarge);
        REQUIRE(exchange(world, survivor, c) == Outcome::completed);
        REQUIRE(near(survivor.values(), c.values()));
        REQUIRE(exchange(world, c, survivor) == Outcome::completed);
      }
    }
  }
}

TEST_CASE("a connection that the remote closed while it was idle is replaced, and the exchange succeeds") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    TestPeer a(world, 1);
    a.attach(kA, kChunk);
    auto b = std::make_unique<TestPeer>(world, 2);
    b->attach(kB, kChunk);
    const Address at = b->address;
    REQUIRE(exchange(world, a, *b) == Outcome::completed);
    REQUIRE(a.exchanger->idle() == 1);

    // The end is known before the next exchange: the connection leaves the pool at once.
    b->die();
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0; }));
    b = std::make_unique<TestPeer>(world, 2, steady(), at);
    b->attach(kB, kChunk);
    REQUIRE(exchange(world, a, *b) == Outcome::completed);
    REQUIRE(a.counters().redials == 0);
    REQUIRE(a.counters().half_applied_chunks == 0);

    // The end is known after the exchange has begun: it restarts on a new connection.
    const auto x = a.values();
    a.begin(*b);
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0; }));
    b->die();
    b = std::make_unique<TestPeer>(world, 2, steady(), at);
    b->attach(kB, kChunk);
    REQUIRE(world.until([&] { return a.ended.size() == 3; }));
    REQUIRE(a.ended.back().outcome == Outcome::completed);
    REQUIRE(a.counters().redials == 1);
    REQUIRE(shifted_chunks(x, kB, a.values(), b->values(), kChunk) == 0);
    REQUIRE(a.links->counters().bulk_dialed == 3);

    // If the peer is gone, the exchange is aborted.
    a.begin(*b);
    b->die();
    REQUIRE(world.until([&] { return a.ended.size() == 4; }));
    REQUIRE(a.ended.back().outcome == Outcome::aborted);
  }
}

TEST_CASE("the pool keeps a few connections, each for a while") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.idle_max = 3;
  World world(kind);
  SECTION("the least recently used one goes first") {
    TestPeer a(world, 1, options);
    a.attach(kA, kChunk);
    std::vector<std::unique_ptr<TestPeer>> others;
    for (std::uint64_t i = 0; i < 6; ++i) {
      others.push_back(std::make_unique<TestPeer>(world, 10 + i));
      others.back()->attach(kB, kChunk);
      REQUIRE(exchange(world, a, *others.back()) == Outcome::completed);
      REQUIRE(a.exchanger->idle() <= 3);
    }
    for (const std::size_t gone : {0, 1, 2}) {
      REQUIRE(world.until([&] { return others[gone]->exchanger->servers() == 0; }));
    }
    for (const std::size_t kept : {3, 4, 5}) {
      REQUIRE(exchange(world, a, *others[kept]) == Outcome::completed);
    }
    REQUIRE(a.links->counters().bulk_dialed == 6);
  }
  SECTION("a connection that stays unused for the idle limit is closed") {
    options.idle_limit = std::chrono::milliseconds(20);
    TestPeer a(world, 1, options), b(world, 2);
    a.attach(kA, kChunk);
    b.attach(kB, kChunk);
    REQUIRE(exchange(world, a, b) == Outcome::completed);
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0 && b.exchanger->servers() == 0; }));
    REQUIRE(exchange(world, a, b) == Outcome::completed);
    REQUIRE(a.counters().redials == 0);
    REQUIRE(a.links->counters()[transport::LinkErrorKind::timed_out] == 0);
  }
  SECTION("the accepting peer closes it too if the dialer vanished") {
    options.idle_limit = std::chrono::milliseconds(20);
    TestPeer b(world, 2, options);
    b.attach(kB, kChunk);
    Stranger gone(world, 66);
    gone.dial(b);
    REQUIRE(world.until([&] { return b.exchanger->servers() == 1; }));
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    REQUIRE(b.links->counters()[transport::LinkErrorKind::timed_out] == 0);
  }
}

TEST_CASE("an exchanger destroyed while it serves, fetches and dials does not disturb the loop") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (std::size_t turns = 0; turns < 60; ++turns) {
      World world(kind);
      TestPeer a(world, 1), b(world, 2), c(world, 3);
      a.attach(random_floats(20'000, 1), 1'000);
      b.attach(random_floats(20'000, 2), 1'000);
      c.attach(random_floats(20'000, 3), 1'000);
      b.begin(a);
      a.begin(c);
      c.begin(a);
      a.exchanger->fetch_state({b.id, b.address});
      for (std::size_t i = 0; i < turns * 3; ++i) world.io.poll_one();
      a.exchanger->close();
      a.exchanger.reset();
      a.arena.reset();
      a.links.reset();
      REQUIRE(world.until([&] { return b.ended.size() == 1 && c.ended.size() == 1; }));
      REQUIRE(a.answers_ended <= a.accepted);
    }
  }
}

TEST_CASE("an exchanger that is closed answers no offer and begins no exchange") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  TwoPeers two(kind);
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  const auto x = two.b.values();
  two.b.exchanger->close();
  two.b.exchanger->close();
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::aborted);
  REQUIRE(two.b.values() == x);
  REQUIRE(two.b.offered == 1);
}

}  // namespace starling::node
