// One exchange at a time, and everything that can go wrong with it.
#include "node/exchange/exchanger.h"

#include <limits>
#include <utility>

#include "tests/node/eleven_chunks.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using wire::ChunkKind;
using wire::RefusalReason;

constexpr int kTries = 200;

bool near(const std::vector<float>& x, const std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(x[i] - y[i]) > 1e-6f) return false;
  }
  return x.size() == y.size();
}

// Two peers with different parameters.
struct Two {
  explicit Two(Kind kind, ExchangerOptions options = steady())
      : world(kind), a(world, 1, options), b(world, 2, options) {
    a.attach(kA, kChunk);
    b.attach(kB, kChunk);
  }
  World world;
  Bird a, b;
};

// `bird` exchanges properly with a newcomer, both ways: it is unharmed, and nothing of it is lent. A bird
// with a short stall limit may need several tries on a machine that has other things to do.
void require_well(World& world, Bird& bird, int tries = 1) {
  Bird other(world, 99);
  other.attach(random_floats(kFloats, 9), kChunk);
  const auto overlapped = bird.mixer->counters().overlapped;
  const auto completes = [&](Bird& from, Bird& to) {
    for (int i = 0; i < tries; ++i) {
      if (exchange(world, from, to) == Outcome::completed) return true;
    }
    return false;
  };
  REQUIRE(completes(other, bird));
  REQUIRE(near(bird.values(), other.values()));
  REQUIRE(bird.mixer->counters().overlapped == overlapped);
  other.arena->write(0, kA);
  REQUIRE(completes(bird, other));
  REQUIRE(near(bird.values(), other.values()));
}

}  // namespace

TEST_CASE("an exchange leaves both replicas at their mean, and the next one takes the same connection") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    Two two(kind);
    REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
    auto mean = kA;
    for (std::size_t i = 0; i < kFloats; ++i) mean[i] = 0.5f * (kA[i] + kB[i]);
    REQUIRE(near(two.a.values(), mean));
    REQUIRE(near(two.b.values(), mean));
    REQUIRE(two.a.counters().distance.value() > 0.5);
    for (int i = 0; i < 5; ++i) REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
    REQUIRE(two.a.links->counters().bulk_dialled == 1);
    REQUIRE(two.a.counters().half_applied_chunks == 0);
    REQUIRE(two.world.until([&] { return two.b.answers_ended == 6; }));
    REQUIRE(two.b.answers_completed == 6);
    REQUIRE(two.b.mixer->counters().answered == 6 * kChunks);
  }
}

// ---- refusals ----

TEST_CASE(
    "an offer to a peer without parameters is rejected, and the same connection serves once it has some") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird a(world, 1), b(world, 2);
  a.attach(kA, kChunk);
  REQUIRE(exchange(world, a, b) == Outcome::rejected);
  REQUIRE(a.values() == kA);
  REQUIRE(b.offered == 0);
  b.attach(kB, kChunk);
  REQUIRE(exchange(world, a, b) == Outcome::completed);
  REQUIRE(a.links->counters().bulk_dialled == 1);
  REQUIRE(a.counters().half_applied_chunks == 0);
}

TEST_CASE("an offer for another model is rejected and nothing is mixed or lent") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird a(world, 1), other_names(world, 2), other_length(world, 3), other_chunks(world, 4);
  a.attach(kA, kChunk);
  other_names.attach(kB, kChunk, kFingerprint + 1);
  other_length.attach(std::vector<float>(kFloats + 1, 1.0f), kChunk);
  other_chunks.attach(kB, kChunk + 1);
  for (Bird* b : {&other_names, &other_length, &other_chunks}) {
    const auto before = b->values();
    REQUIRE(exchange(world, a, *b) == Outcome::rejected);
    REQUIRE(exchange(world, a, *b) == Outcome::rejected);
    REQUIRE(a.values() == kA);
    REQUIRE(b->values() == before);
    REQUIRE(b->offered == 0);
  }
  REQUIRE(a.links->counters().bulk_dialled == 3);
  REQUIRE(a.counters().half_applied_chunks == 0);
  require_well(world, a);
}

TEST_CASE("an offer that the core declines is rejected, and the connection is used again") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  Two two(kind);
  two.b.decide = [] { return Decision{false, RefusalReason::busy}; };
  for (int i = 0; i < 3; ++i) REQUIRE(exchange(two.world, two.a, two.b) == Outcome::rejected);
  REQUIRE(two.a.values() == kA);
  REQUIRE(two.b.values() == kB);
  REQUIRE(two.b.offered == 3);
  REQUIRE(two.b.answers_ended == 0);
  two.b.decide = nullptr;
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  REQUIRE(two.a.links->counters().bulk_dialled == 1);
  REQUIRE(two.a.counters().half_applied_chunks == 0);
}

TEST_CASE("an exchange with nobody, or with another instance than the one meant, is aborted and harmless") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  Two two(kind);
  two.a.exchanger->begin(1, PeerId{77}, two.b.address);
  REQUIRE(two.world.until([&] { return two.a.ended.size() == 1; }));
  const Address gone = Bird(two.world, 3).address;
  two.a.exchanger->begin(2, PeerId{3}, gone);
  REQUIRE(two.world.until([&] { return two.a.ended.size() == 2; }));
  for (const auto& ended : two.a.ended) REQUIRE(ended.outcome == Outcome::aborted);
  REQUIRE(two.a.values() == kA);
  REQUIRE(two.b.values() == kB);
  REQUIRE(two.a.counters().half_applied_chunks == 0);
  require_well(two.world, two.a);
}

// ---- giving up ----

TEST_CASE("an aborted exchange ends its loans, counts a window of chunks and tells nobody") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird a(world, 1);
  a.attach(kA, kChunk);
  Stranger silent(world, 2);
  a.exchanger->begin(1, silent.id, silent.address);
  silent.await_dial();
  REQUIRE(silent.hear_message<wire::ExchangeOffer>().exchange == 1);
  for (std::size_t chunk = 0; chunk < kWindow; ++chunk) {
    const auto frame = silent.hear();
    REQUIRE(frame);
    REQUIRE(frame->chunk.offset == chunk * kChunk);
    REQUIRE(floats_of(*frame) == chunk_of(kA, chunk));
  }
  SECTION("by the core") {
    a.exchanger->abort(2);  // another one: nothing happens
    REQUIRE(a.counters().half_applied_chunks == 0);
    a.exchanger->abort(1);
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE_FALSE(silent.hear());  // beyond the window nothing was sent
    require_well(world, a);
    REQUIRE(a.ended.size() == 1);  // that of require_well
  }
  SECTION("by closing") {
    a.exchanger->close();
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE_FALSE(silent.hear());
    REQUIRE(a.ended.empty());
  }
  SECTION("by destruction, while the loop goes on") {
    a.exchanger.reset();
    a.arena.reset();
    REQUIRE_FALSE(silent.hear());
    REQUIRE(a.ended.empty());
  }
}

TEST_CASE("an exchange that is aborted while it is dialled never begins") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  Two two(kind);
  two.a.begin(two.b);
  two.a.exchanger->abort(1);
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  REQUIRE(two.a.ended.size() == 1);
  REQUIRE(two.b.offered == 1);
}

TEST_CASE("who begins an exchange or asks for a copy, and falls silent, is given up after the stall limit") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.stall = std::chrono::milliseconds(30);
  World world(kind);
  Bird a(world, 1, options);
  a.attach(kA, kChunk);
  Stranger silent(world, 2);
  SECTION("an initiator, behind its offer") {
    silent.dial(a);
    REQUIRE(silent.say(silent.offer(a, kChunk)));
    REQUIRE(world.until([&] { return a.answers_ended == 1; }));
    REQUIRE(a.values() == kA);
    REQUIRE(a.answers_completed == 0);
  }
  SECTION("an initiator, behind some chunks") {
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
    a.exchanger->fetch_state(silent.id, silent.address);
    REQUIRE(world.until([&] { return !a.states_lost.empty(); }));
    REQUIRE(a.values() == kA);
  }
  REQUIRE(world.until([&] { return a.exchanger->servers() == 0; }));
  REQUIRE(a.links->counters()[transport::LinkErrorKind::timed_out] <= 1);
  require_well(world, a, kTries);
}

TEST_CASE("a partner may hold an offer beyond any stall limit: the core alone gives an exchange up") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const bool initiator_is_short = GENERATE(true, false);
  ExchangerOptions short_stall = steady();
  short_stall.stall = std::chrono::milliseconds(5);
  World world(kind);
  Bird a(world, 1, initiator_is_short ? short_stall : steady());
  Bird b(world, 2, initiator_is_short ? steady() : short_stall);
  a.attach(kA, kChunk);
  b.attach(kB, kChunk);
  std::vector<std::uint64_t> held;
  b.undecided = [&](PeerId from, std::uint64_t exchange) {
    if (from == a.id) return held.push_back(exchange);
    b.exchanger->answer({from, exchange, true, {}, {}});
  };
  a.begin(b);
  REQUIRE(world.until([&] { return held.size() == 1; }));
  // Time passes: others begin exchanges with the impatient one after that, and are cut off for their silence.
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
  SECTION("and when it is answered it goes on") {
    b.exchanger->answer({a.id, 1, true, {}, {}});
    REQUIRE(world.until([&] { return a.ended.size() == 1; }));
    if (!initiator_is_short) return;  // such a responder may well find the chunks too slow
    REQUIRE(a.ended.back().outcome == Outcome::completed);
    REQUIRE(near(a.values(), b.values()));
    REQUIRE(a.counters().half_applied_chunks == 0);
  }
  SECTION("and when the core gives it up nothing was mixed") {
    a.exchanger->abort(1);
    REQUIRE(a.counters().half_applied_chunks == kWindow);
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    REQUIRE(b.answers_ended == others + 1);
    REQUIRE(a.values() == kA);
    REQUIRE(b.values() == kB);
  }
}

// ---- a partner that dies ----

TEST_CASE("at whatever moment a connection breaks the shifted chunks are among the half-applied ones") {
  constexpr std::size_t kMany = 40'000, kLarge = 5'000;
  const auto x = random_floats(kMany, 3), y = random_floats(kMany, 4);
  World world(Kind::memory);
  Bird a(world, 1);
  a.attach(x, kLarge);
  std::size_t shifted_most = 0;
  bool aborted = true;
  for (std::size_t turns = 0; aborted; ++turns) {
    CAPTURE(turns);
    Bird b(world, 2);
    b.attach(y, kLarge);
    a.arena->write(0, x);
    const auto counted = a.counters().half_applied_chunks;
    const std::size_t ended = a.ended.size();
    a.begin(b);
    for (std::size_t i = 0; i < turns && a.ended.size() == ended; ++i) {
      REQUIRE(world.until([met = false]() mutable { return std::exchange(met, true); }));  // one event
    }
    world.network.cut(b.address);
    world.network.cut_next_after(b.address, 1);  // where it had not been dialled yet
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

TEST_CASE(
    "when either process ends in the middle of an exchange the other goes on, at most a window shifted") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;  // more than the sockets hold
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (const bool initiator_dies : {false, true}) {
      for (const std::uint64_t after : {1, 7, 30}) {
        CAPTURE(initiator_dies, after);
        World world(kind);
        Bird a(world, 1), b(world, 2);
        const auto x = random_floats(kMany, 3), y = random_floats(kMany, 4);
        a.attach(x, kLarge);
        b.attach(y, kLarge);
        a.begin(b);
        REQUIRE(world.until([&] { return b.mixer->counters().answered >= after; }));
        Bird& survivor = initiator_dies ? b : a;
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

        Bird c(world, 3);
        c.attach(y, kLarge);
        REQUIRE(exchange(world, survivor, c) == Outcome::completed);
        REQUIRE(near(survivor.values(), c.values()));
        REQUIRE(exchange(world, c, survivor) == Outcome::completed);
      }
    }
  }
}

TEST_CASE("a connection that the remote closed while it was idle is replaced, not blamed on the exchange") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    Bird a(world, 1);
    a.attach(kA, kChunk);
    auto b = std::make_unique<Bird>(world, 2);
    b->attach(kB, kChunk);
    const Address at = b->address;
    REQUIRE(exchange(world, a, *b) == Outcome::completed);
    REQUIRE(a.exchanger->idle() == 1);

    // The news comes before the next exchange: the connection leaves the pool at once.
    b->die();
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0; }));
    b = std::make_unique<Bird>(world, 2, steady(), at);
    b->attach(kB, kChunk);
    REQUIRE(exchange(world, a, *b) == Outcome::completed);
    REQUIRE(a.counters().redials == 0);
    REQUIRE(a.counters().half_applied_chunks == 0);

    // The news comes when the exchange has begun: it begins again on a new connection.
    const auto x = a.values();
    a.begin(*b);
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0; }));
    b->die();
    b = std::make_unique<Bird>(world, 2, steady(), at);
    b->attach(kB, kChunk);
    REQUIRE(world.until([&] { return a.ended.size() == 3; }));
    REQUIRE(a.ended.back().outcome == Outcome::completed);
    REQUIRE(a.counters().redials == 1);
    REQUIRE(shifted_chunks(x, kB, a.values(), b->values(), kChunk) == 0);
    REQUIRE(a.links->counters().bulk_dialled == 3);

    // And where nobody is there any more, it is aborted.
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
    Bird a(world, 1, options);
    a.attach(kA, kChunk);
    std::vector<std::unique_ptr<Bird>> others;
    for (std::uint64_t i = 0; i < 6; ++i) {
      others.push_back(std::make_unique<Bird>(world, 10 + i));
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
    REQUIRE(a.links->counters().bulk_dialled == 6);
  }
  SECTION("and one that nobody used for so long is closed") {
    options.idle_limit = std::chrono::milliseconds(20);
    Bird a(world, 1, options), b(world, 2);
    a.attach(kA, kChunk);
    b.attach(kB, kChunk);
    REQUIRE(exchange(world, a, b) == Outcome::completed);
    REQUIRE(world.until([&] { return a.exchanger->idle() == 0 && b.exchanger->servers() == 0; }));
    REQUIRE(exchange(world, a, b) == Outcome::completed);
    REQUIRE(a.counters().redials == 0);
    REQUIRE(a.links->counters()[transport::LinkErrorKind::timed_out] == 0);
  }
  SECTION("also by the one who accepted it, where the dialler is gone without a word") {
    options.idle_limit = std::chrono::milliseconds(20);
    Bird b(world, 2, options);
    b.attach(kB, kChunk);
    Stranger gone(world, 66);
    gone.dial(b);
    REQUIRE(world.until([&] { return b.exchanger->servers() == 1; }));
    REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
    REQUIRE(b.links->counters()[transport::LinkErrorKind::timed_out] == 0);
  }
}

// ---- remotes that talk nonsense ----

TEST_CASE(
    "a poisoned chunk never touches the arena of a responder, is counted, and ends only that connection") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const float poison =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity(), 1e38f);
  World world(kind);
  Bird b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(evil.offer(b, kChunk)));
  auto values = chunk_of(kA, 0);
  values.back() = poison;
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0), values));
  evil.hear_the_end();
  REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
  REQUIRE(b.values() == kB);
  REQUIRE(b.counters().chunks_refused == 1);
  REQUIRE(b.answers_ended == 1);
  REQUIRE(b.answers_completed == 0);
  REQUIRE(b.answers_poisoned == 1);
  // What the same remote does well later is not held against it.
  evil.dial(b);
  REQUIRE(evil.say(evil.offer(b, kChunk, 2)));
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    REQUIRE(evil.say(head_of(ChunkKind::offer, chunk, 2), chunk_of(kB, chunk)));
    REQUIRE(evil.hear());
  }
  REQUIRE(b.answers_completed == 1);
  REQUIRE(b.answers_poisoned == 1);
  require_well(world, b);
}

TEST_CASE("a poisoned reply never touches the arena of an initiator, and ends the exchange as what it is") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const float poison =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity(), 1e38f);
  World world(kind);
  Bird a(world, 1);
  a.attach(kA, kChunk);
  Stranger evil(world, 66);
  a.exchanger->begin(1, evil.id, evil.address);
  evil.await_dial();
  REQUIRE(evil.hear_message<wire::ExchangeOffer>().arena_floats == kFloats);
  REQUIRE(evil.hear());
  auto values = chunk_of(kB, 0);
  values.front() = poison;
  REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), values));
  REQUIRE(world.until([&] { return a.ended.size() == 1; }));
  REQUIRE(a.ended.back().outcome == Outcome::poisoned);
  REQUIRE(a.exchanger->idle() == 0);
  REQUIRE(a.values() == kA);
  REQUIRE(a.counters().chunks_refused == 1);
  REQUIRE(a.counters().half_applied_chunks <= kWindow);
  require_well(world, a);
}

TEST_CASE(
    "a chunk out of order, of another length or of none of the two kinds in place ends the connection") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(evil.offer(b, kChunk)));
  std::uint64_t refused = 1;
  SECTION("the second chunk first") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 1), chunk_of(kA, 1)));
  }
  SECTION("an offset between chunks") {
    auto head = head_of(ChunkKind::offer, 0);
    head.offset = 1;
    REQUIRE(evil.say(head, chunk_of(kA, 0)));
  }
  SECTION("an offset behind the arena") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 1'000'000), chunk_of(kA, 0)));
  }
  SECTION("too short") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 0), {1.0f}));
  }
  SECTION("too long") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 0), std::vector<float>(kChunk + 1, 1.0f)));
  }
  SECTION("a message that does not belong here") {
    REQUIRE(evil.say(wire::Ping{}));
    refused = 0;
  }
  SECTION("bytes that are no frame") {
    REQUIRE(evil.say_bytes(std::vector<std::byte>(100, std::byte{7})));
    refused = 0;
  }
  evil.hear_the_end();
  REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
  REQUIRE(b.values() == kB);
  REQUIRE(b.counters().chunks_refused == refused);
  REQUIRE(b.answers_ended == 1);
  REQUIRE(b.answers_poisoned == 0);
  require_well(world, b);
}

TEST_CASE("chunks of no exchange, of an ended one and of another kind are read and dropped") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0), chunk_of(kA, 0)));  // before any offer
  REQUIRE(evil.say(evil.offer(b, kChunk, 1)));
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0, 5), chunk_of(kA, 0)));
  REQUIRE(evil.say(head_of(ChunkKind::state, 0, 1), chunk_of(kA, 0)));
  REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), chunk_of(kA, 0)));
  REQUIRE(evil.say(evil.offer(b, kChunk, 2)));  // gives up the first one
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0, 1), chunk_of(kA, 0)));
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0, 2), chunk_of(kA, 0)));
  const auto reply = evil.hear();
  REQUIRE(reply);
  REQUIRE(reply->chunk.kind == ChunkKind::reply);
  REQUIRE(reply->chunk.exchange == 2);
  REQUIRE(reply->chunk.weight == 0.5f);
  REQUIRE(floats_of(*reply) == chunk_of(kB, 0));
  REQUIRE(b.answers_ended == 1);
  REQUIRE(b.mixer->counters().answered == 1);
}

TEST_CASE("a responder that answers what was not asked is aborted without a trace in the arena") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird a(world, 1);
  a.attach(kA, kChunk);
  Stranger evil(world, 66);
  a.exchanger->begin(1, evil.id, evil.address);
  evil.await_dial();
  REQUIRE(evil.hear_message<wire::ExchangeOffer>().exchange == 1);
  REQUIRE(evil.hear());
  SECTION("the second chunk first") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 1, 1, 0.5f), chunk_of(kB, 1)));
  }
  SECTION("another exchange") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 2, 0.5f), chunk_of(kB, 0)));
  }
  SECTION("too short") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), {1.0f}));
  }
  SECTION("too short, and not finite") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), {std::numeric_limits<float>::infinity()}));
  }
  SECTION("another kind") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 0), chunk_of(kB, 0)));
  }
  SECTION("a refusal of another exchange") {
    REQUIRE(evil.say(wire::ExchangeRefusal{7, RefusalReason::busy, 0}));
  }
  SECTION("a message that does not belong here") {
    REQUIRE(evil.say(wire::Ping{}));
  }
  SECTION("a half exchange, then a refusal") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.0f), chunk_of(kB, 0)));
    REQUIRE(evil.say(wire::ExchangeRefusal{1, RefusalReason::busy, 0}));
  }
  REQUIRE(world.until([&] { return a.ended.size() == 1; }));
  REQUIRE(a.ended.back().outcome == Outcome::aborted);
  REQUIRE(a.values() == kA);
  require_well(world, a);
}

TEST_CASE("replies of weight 0 complete an exchange in which nobody mixes") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird a(world, 1);
  a.attach(kA, kChunk);
  Stranger poor(world, 2);
  a.exchanger->begin(1, poor.id, poor.address);
  poor.await_dial();
  REQUIRE(poor.hear_message<wire::ExchangeOffer>().exchange == 1);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    REQUIRE(poor.hear());
    REQUIRE(poor.say(head_of(ChunkKind::reply, chunk, 1, 0.0f), chunk_of(kB, chunk)));
  }
  REQUIRE(world.until([&] { return a.ended.size() == 1; }));
  REQUIRE(a.ended.back().outcome == Outcome::completed);
  REQUIRE(a.values() == kA);
}

TEST_CASE("a frame that claims more bytes than the protocol allows is refused before its body comes") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(evil.offer(b, kChunk)));
  auto frame = transport::testing::chunk_frame(4);
  frame.at(11) = std::byte{0x7f};  // the most significant byte of the body's length
  frame.resize(wire::kFrameHeaderBytes);
  REQUIRE(evil.say_bytes(frame));
  evil.hear_the_end();
  REQUIRE(world.until([&] { return b.answers_ended == 1; }));
  REQUIRE(b.links->counters()[transport::LinkErrorKind::oversize] == 1);
  REQUIRE(b.values() == kB);
  require_well(world, b);
}

TEST_CASE("a remote that asks without end and reads nothing is cut off, and little was kept for it") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.stall = std::chrono::milliseconds(50);
  World world(kind);
  world.tcp.socket_buffer_bytes = 64 * 1024;
  Bird b(world, 2, options);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  wire::Message question;
  std::vector<std::byte> behind;  // what follows each
  SECTION("offers with a chunk each") {
    question = evil.offer(b, kChunk);
    auto head = head_of(ChunkKind::offer, 0);
    head.floats = kChunk;
    const Bytes values = std::as_bytes(std::span(kB).first(kChunk));
    behind.resize(wire::kChunkPrefixBytes);
    wire::write_chunk_prefix(head, values, std::span(behind).first<wire::kChunkPrefixBytes>());
    behind.insert(behind.end(), values.begin(), values.end());
  }
  SECTION("parameters") {
    question = wire::StateRequest{kFingerprint, kChunk, 0};
  }
  if (kind == Kind::memory) {  // a kernel is slow to fill its buffers with small segments
    SECTION("offers that are declined") {
      b.decide = [] { return Decision{false, RefusalReason::busy}; };
      question = evil.offer(b, kChunk);
    }
    SECTION("offers of another model") {
      auto offer = evil.offer(b, kChunk);
      ++offer.fingerprint;
      question = offer;
    }
    SECTION("parameters of another model") {
      question = wire::StateRequest{kFingerprint + 1, kChunk, 0};
    }
  }
  // A connection holds less than a MiB in each direction; a million questions are far more.
  int asked = 0;
  constexpr int kQuestions = 1'000'000;
  world.run([](LinkPtr link, wire::Message what, Bytes chunk, int& count) -> asio::awaitable<void> {
    const auto frame = transport::testing::message_frame(what);
    while (count < kQuestions && (co_await link->write(frame, chunk)).ok()) ++count;
  }(evil.link, question, behind, asked));
  REQUIRE(asked < kQuestions / 10);
  REQUIRE(world.until([&] { return b.exchanger->servers() == 0; }));
  b.decide = nullptr;
  require_well(world, b, kTries);
}

TEST_CASE("of too many inbound connections the oldest idle ones go, and busy ones stay") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.servers_max = 4;
  World world(kind);
  Bird b(world, 2, options);
  b.attach(kB, kChunk);
  std::vector<std::unique_ptr<Stranger>> crowd;
  const auto come = [&] {
    crowd.push_back(std::make_unique<Stranger>(world, 100 + crowd.size()));
    crowd.back()->dial(b);
  };
  come();
  REQUIRE(crowd[0]->say(crowd[0]->offer(b, kChunk)));
  REQUIRE(world.until([&] { return b.offered == 1; }));
  for (int i = 0; i < 8; ++i) come();
  for (std::size_t i = 1; i <= 5; ++i) crowd[i]->hear_the_end();
  REQUIRE(world.until([&] { return b.exchanger->servers() == 4; }));
  for (const std::size_t i : {6, 7, 8}) {
    REQUIRE(crowd[i]->say(crowd[i]->offer(b, kChunk)));
  }
  REQUIRE(world.until([&] { return b.offered == 4; }));
  come();  // now all are busy
  crowd.back()->hear_the_end();
  for (const std::size_t i : {0, 6, 7, 8}) {
    REQUIRE(crowd[i]->say(head_of(ChunkKind::offer, 0), chunk_of(kA, 0)));
    REQUIRE(crowd[i]->hear());
  }
}

// ---- a joiner's first copy ----

TEST_CASE("a joiner's copy equals its donor's parameters bit by bit") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    Bird joiner(world, 1), donor(world, 2);
    joiner.attach(std::vector<float>(kFloats, 0.0f), kChunk);
    auto values = kB;
    values[0] = -0.0f;
    values[1] = std::numeric_limits<float>::denorm_min();
    donor.attach(values, 64);  // the joiner's own grid is what counts
    joiner.exchanger->fetch_state(donor.id, donor.address);
    REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
    const auto copy = joiner.values();
    REQUIRE(std::memcmp(copy.data(), values.data(), kFloats * sizeof(float)) == 0);
    REQUIRE(joiner.states_lost.empty());
    REQUIRE(world.until([&] { return donor.exchanger->servers() == 0; }));
  }
}

TEST_CASE("a copy from a peer that has nothing to give, or nobody, is lost with a sentence") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird joiner(world, 1), empty(world, 2), other(world, 3);
  joiner.attach(kA, kChunk);
  other.attach(kB, kChunk, kFingerprint + 1);
  const Address gone = Bird(world, 4).address;
  const auto lost = [&](PeerId id, const Address& address) {
    const std::size_t before = joiner.states_lost.size();
    joiner.exchanger->fetch_state(id, address);
    REQUIRE(world.until([&] { return joiner.states_lost.size() > before; }));
    const std::string why = joiner.states_lost.back();
    CAPTURE(why);
    REQUIRE(why.find(to_string(address)) != std::string::npos);
    return why;
  };
  REQUIRE(lost(empty.id, empty.address).find("no parameters to give") != std::string::npos);
  REQUIRE(lost(other.id, other.address).find("another layout") != std::string::npos);
  REQUIRE(lost(PeerId{55}, empty.address).find("another peer") != std::string::npos);
  REQUIRE(lost(PeerId{4}, gone).find("cannot reach") != std::string::npos);
  REQUIRE(joiner.values() == kA);
  REQUIRE(joiner.states_arrived == 0);
}

TEST_CASE("a first copy tells how far it is after every chunk") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird joiner(world, 1), donor(world, 2);
  joiner.attach(kA, kChunk);
  donor.attach(kB, kChunk);
  joiner.exchanger->fetch_state(donor.id, donor.address);
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  REQUIRE(joiner.advances.size() == kChunks);
  for (std::size_t i = 0; i < kChunks; ++i) {
    REQUIRE(joiner.advances[i] == std::pair<std::uint64_t, std::uint64_t>(i + 1, kChunks));
  }
}

TEST_CASE("a first copy goes on where the last donor stopped, and keeps what is in place") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird joiner(world, 1);
  joiner.attach(kA, kChunk);
  constexpr std::size_t kFirst = 4;
  Stranger first(world, 2), second(world, 3);
  joiner.exchanger->fetch_state(first.id, first.address);
  first.await_dial();
  REQUIRE(first.hear_message<wire::StateRequest>().first_chunk == 0);
  REQUIRE(first.say(wire::StateHead{kFloats, kChunks}));
  for (std::size_t chunk = 0; chunk < kFirst; ++chunk) {
    REQUIRE(first.say(head_of(ChunkKind::state, chunk, 0), chunk_of(kB, chunk)));
  }
  REQUIRE(world.until([&] { return joiner.advances.size() == kFirst; }));
  bool poisoned = false, aborted = false;
  SECTION("it died") {
    first.link->close();
  }
  SECTION("it sent poison") {
    auto values = chunk_of(kB, kFirst);
    values.back() = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(first.say(head_of(ChunkKind::state, kFirst, 0), values));
    poisoned = true;
  }
  SECTION("it began again") {
    REQUIRE(first.say(head_of(ChunkKind::state, 0, 0), chunk_of(kA, 0)));
  }
  SECTION("it was given up") {
    joiner.exchanger->abort_fetch();
    joiner.exchanger->abort_fetch();
    aborted = true;
  }
  if (!aborted) {
    REQUIRE(world.until([&] { return joiner.states_lost.size() == 1; }));
  }
  REQUIRE(joiner.states_poisoned == (poisoned ? 1 : 0));
  auto expected = kA;
  std::copy_n(kB.begin(), kFirst * kChunk, expected.begin());
  REQUIRE(joiner.values() == expected);

  joiner.exchanger->fetch_state(second.id, second.address);
  second.await_dial();
  REQUIRE(second.hear_message<wire::StateRequest>().first_chunk == kFirst);
  REQUIRE(second.say(wire::StateHead{kFloats, kChunks - kFirst}));
  const auto other = random_floats(kFloats, 5);
  for (std::size_t chunk = kFirst; chunk < kChunks; ++chunk) {
    REQUIRE(second.say(head_of(ChunkKind::state, chunk, 0), chunk_of(other, chunk)));
  }
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  std::copy(other.begin() + kFirst * kChunk, other.end(), expected.begin() + kFirst * kChunk);
  REQUIRE(joiner.values() == expected);
  REQUIRE(joiner.states_lost.size() == (aborted ? 0 : 1));
  REQUIRE(joiner.advances.back().first == kChunks);
}

TEST_CASE("a copy that goes on takes only as many chunks as are missing, of an arena of its own length") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird joiner(world, 1), donor(world, 2), other(world, 3);
  joiner.attach(kA, kChunk);
  donor.attach(kB, kChunk);
  other.attach(kB, kChunk, kFingerprint + 1);
  joiner.on_advance = [&] {
    if (joiner.advances.size() == 3) joiner.exchanger->abort_fetch();  // from inside the event
  };
  joiner.exchanger->fetch_state(donor.id, donor.address);
  REQUIRE(world.until([&] { return joiner.advances.size() == 3; }));
  const auto before = joiner.values();
  const auto lose = [&](const wire::StateHead& head) {
    Stranger liar(world, 50);
    const auto lost = joiner.states_lost.size();
    joiner.exchanger->fetch_state(liar.id, liar.address);
    liar.await_dial();
    REQUIRE(liar.hear_message<wire::StateRequest>().first_chunk == 3);
    REQUIRE(liar.say(head));
    REQUIRE(world.until([&] { return joiner.states_lost.size() > lost; }));
    REQUIRE(joiner.values() == before);
  };
  lose({kFloats, kChunks});
  lose({kFloats, kChunks - 4});
  lose({kFloats + 1, kChunks - 3});
  joiner.exchanger->fetch_state(other.id, other.address);
  REQUIRE(world.until([&] { return joiner.states_lost.size() == 4; }));
  REQUIRE(joiner.values() == before);
  REQUIRE(joiner.states_poisoned == 0);
  REQUIRE(joiner.advances.size() == 3);
  joiner.exchanger->fetch_state(donor.id, donor.address);
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  REQUIRE(joiner.values() == kB);
  REQUIRE(joiner.advances.size() == kChunks);
}

TEST_CASE("a donor given up at whatever moment leaves the next one a clean field") {
  for (std::size_t turns = 0; turns < 40; ++turns) {
    CAPTURE(turns);
    World world(Kind::memory);
    Bird joiner(world, 1), donor(world, 2), other(world, 3);
    joiner.attach(kA, kChunk);
    donor.attach(kB, kChunk);
    other.attach(kB, kChunk);
    joiner.exchanger->fetch_state(donor.id, donor.address);
    for (std::size_t i = 0; i < turns; ++i) world.io.poll_one();
    if (joiner.states_arrived == 1) break;
    joiner.exchanger->abort_fetch();
    joiner.exchanger->fetch_state(other.id, other.address);
    REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
    REQUIRE(joiner.values() == kB);
    REQUIRE(joiner.states_lost.empty());
    REQUIRE(joiner.advances.size() == kChunks);
    REQUIRE(world.until([&] { return donor.exchanger->servers() == 0; }));
  }
}

TEST_CASE("a donor serves a few joiners at once, sends the others on, and exchanges meanwhile") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;  // more than a connection holds
  ExchangerOptions options = steady();
  options.donations_max = 3;
  World world(Kind::memory);
  Bird donor(world, 1, options), partner(world, 2);
  const auto values = random_floats(kMany, 3);
  donor.attach(values, kLarge);
  partner.attach(random_floats(kMany, 4), kLarge);
  const wire::StateRequest request{kFingerprint, kLarge, 0};
  std::vector<std::unique_ptr<Stranger>> joiners;
  for (std::uint64_t i = 0; i < 5; ++i) {
    joiners.push_back(std::make_unique<Stranger>(world, 10 + i));
    joiners.back()->dial(donor);
    REQUIRE(joiners.back()->say(request));
    if (i < options.donations_max) {
      REQUIRE(joiners.back()->hear_message<wire::StateHead>().chunks == kMany / kLarge);
    } else {
      REQUIRE(joiners.back()->hear_message<wire::Refusal>().reason == RefusalReason::busy);
    }
  }
  REQUIRE(exchange(world, partner, donor) == Outcome::completed);

  joiners[0]->link->close();  // a place is free as soon as a joiner is gone
  REQUIRE(world.until([&] { return donor.exchanger->servers() == 5; }));
  REQUIRE(joiners[4]->say(request));
  REQUIRE(joiners[4]->hear_message<wire::StateHead>().chunks == kMany / kLarge);
  for (std::size_t chunk = 0; chunk < kMany / kLarge; ++chunk) REQUIRE(joiners[4]->hear());
  REQUIRE(joiners[3]->say(request));  // or has its copy
  REQUIRE(joiners[3]->hear_message<wire::StateHead>().chunks == kMany / kLarge);
}

TEST_CASE("two hundred joiners at once all get their copy, of the first member and of one another") {
  World world(Kind::memory);
  Bird donor(world, 1);
  donor.attach(kB, kChunk);
  std::vector<std::unique_ptr<Bird>> joiners;
  std::size_t asked = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    joiners.push_back(std::make_unique<Bird>(world, 10 + i));
    Bird& joiner = *joiners.back();
    joiner.attach(kA, kChunk);
    joiner.on_state_lost = [&] {
      // As the core does it: another member, one that has its copy.
      std::vector<const Bird*> ready = {&donor};
      for (const auto& other : joiners) {
        if (other->states_arrived == 1) ready.push_back(other.get());
      }
      const Bird& next = *ready[++asked % ready.size()];
      joiner.exchanger->fetch_state(next.id, next.address);
    };
    joiner.exchanger->fetch_state(donor.id, donor.address);
  }
  REQUIRE(world.until([&] {
    return std::all_of(joiners.begin(), joiners.end(), [](const auto& j) { return j->states_arrived == 1; });
  }));
  for (const auto& joiner : joiners) REQUIRE(joiner->values() == kB);
  REQUIRE(donor.exchanger->servers() <= ExchangerOptions{}.servers_max);
}

TEST_CASE("a first copy takes no poison, no chunk out of order and no other length") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  Bird joiner(world, 1);
  joiner.attach(kA, kChunk);
  Stranger donor(world, 2);
  joiner.exchanger->fetch_state(donor.id, donor.address);
  donor.await_dial();
  REQUIRE(donor.hear_message<wire::StateRequest>().chunk_floats == kChunk);
  std::uint64_t refused = 0;
  const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), 1e38f);
  SECTION("poison") {
    REQUIRE(donor.say(wire::StateHead{kFloats, kChunks}));
    auto values = chunk_of(kB, 0);
    values[50] = poison;
    REQUIRE(donor.say(head_of(ChunkKind::state, 0, 0), values));
    refused = 1;
  }
  SECTION("out of order") {
    REQUIRE(donor.say(wire::StateHead{kFloats, kChunks}));
    REQUIRE(donor.say(head_of(ChunkKind::state, 1, 0), chunk_of(kB, 1)));
  }
  SECTION("another length") {
    REQUIRE(donor.say(wire::StateHead{kFloats + 1, kChunks}));
  }
  SECTION("fewer chunks") {
    REQUIRE(donor.say(wire::StateHead{kFloats, kChunks - 1}));
  }
  SECTION("something else") {
    REQUIRE(donor.say(wire::Ping{}));
  }
  REQUIRE(world.until([&] { return joiner.states_lost.size() == 1; }));
  REQUIRE(joiner.values() == kA);
  REQUIRE(joiner.counters().chunks_refused == refused);
  REQUIRE(joiner.states_poisoned == static_cast<int>(refused));
  REQUIRE(joiner.advances.empty());
  REQUIRE(joiner.states_arrived == 0);
}

TEST_CASE("an exchanger that is destroyed while it serves, fetches and dials lets the loop go on in peace") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    for (std::size_t turns = 0; turns < 60; ++turns) {
      World world(kind);
      Bird a(world, 1), b(world, 2), c(world, 3);
      a.attach(random_floats(20'000, 1), 1'000);
      b.attach(random_floats(20'000, 2), 1'000);
      c.attach(random_floats(20'000, 3), 1'000);
      b.begin(a);
      a.begin(c);
      c.begin(a);
      a.exchanger->fetch_state(b.id, b.address);
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

TEST_CASE("an exchanger that is closed answers nothing and takes nothing up") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  Two two(kind);
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::completed);
  const auto x = two.b.values();
  two.b.exchanger->close();
  two.b.exchanger->close();
  REQUIRE(exchange(two.world, two.a, two.b) == Outcome::aborted);
  REQUIRE(two.b.values() == x);
  REQUIRE(two.b.offered == 1);
}

}  // namespace starling::node
