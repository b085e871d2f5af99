// Remotes that send requests without end, unexpected messages, or the same message again: each harms at most
// its own exchange, while another exchange of the same peer continues.
#include <cmath>
#include <vector>

#include "tests/node/eleven_chunks.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using wire::ChunkKind;

// A peer with kB in the middle of a correct exchange: a remote with kA has sent two chunks of it.
struct Scene {
  static constexpr std::uint64_t kHonest = 50;  // the exchange's number
  static constexpr std::size_t kBegun = 2;

  explicit Scene(Kind kind) : world(kind), b(world, 2), honest(world, 50), evil(world, 66) {
    b.attach(kB, kChunk);
    honest.dial(b);
    REQUIRE(honest.say(honest.offer(b, kChunk, kHonest)));
    for (std::size_t chunk = 0; chunk < kBegun; ++chunk) ask(chunk);
    begun = b.values();
    REQUIRE(mixed_up_to(begun, kBegun));
  }

  void ask(std::size_t chunk) {
    REQUIRE(honest.say(head_of(ChunkKind::offer, chunk, kHonest), chunk_of(kA, chunk)));
    const auto reply = honest.hear();
    REQUIRE(reply);
    REQUIRE(reply->chunk.weight == 0.5F);
    REQUIRE(floats_of(*reply) == chunk_of(kB, chunk));
  }
  // Nothing has changed the peer's parameters, and the correct exchange completes.
  void require_unharmed(int others_completed = 0) {
    REQUIRE(b.values() == begun);
    for (std::size_t chunk = kBegun; chunk < kChunks; ++chunk) ask(chunk);
    REQUIRE(world.until([&] { return b.answers_completed == 1 + others_completed; }));
    REQUIRE(mixed_up_to(b.values(), kChunks));
    REQUIRE(b.answers_poisoned == 0);
  }
  static bool mixed_up_to(const std::vector<float>& x, std::size_t chunks) {
    for (std::size_t i = 0; i < kFloats; ++i) {
      const double mean = 0.5 * (double{kA[i]} + double{kB[i]});
      if (std::abs(double{x[i]} - (i / kChunk < chunks ? mean : double{kB[i]})) > 1e-6) return false;
    }
    return true;
  }

  World world;
  TestPeer b;
  Stranger honest, evil;
  std::vector<float> begun;  // the parameters at the start
};

// An exchange that the peer begins with the evil remote, which has received the offer and a window of chunks.
void begin_with_evil(Scene& scene, std::uint64_t exchange) {
  scene.b.exchanger->begin(exchange, {scene.evil.id, scene.evil.address});
  scene.evil.await_dial();
  REQUIRE(scene.evil.hear_message<wire::ExchangeOffer>().exchange == exchange);
  for (std::size_t chunk = 0; chunk < kWindow; ++chunk) REQUIRE(scene.evil.hear());
}

}  // namespace

TEST_CASE("a thousand offers without a chunk end as a thousand answers and change nothing") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  constexpr int kOffers = 1000;
  const bool same_number = GENERATE(false, true);
  evil.dial(b);
  for (int i = 1; i <= kOffers; ++i) {
    REQUIRE(evil.say(evil.offer(b, kChunk, same_number ? 1 : static_cast<std::uint64_t>(i))));
  }
  REQUIRE(world.until([&] { return b.accepted == 1 + kOffers; }));
  REQUIRE(b.answers_ended == kOffers - 1);  // each offer ends the answer to the one before
  REQUIRE(b.exchanger->servers() == 2);
  evil.link->close();
  REQUIRE(world.until([&] { return b.answers_ended == kOffers; }));
  REQUIRE(b.answers_completed == 0);
  REQUIRE(b.counters().chunks_refused == 0);
  scene.require_unharmed();
}

TEST_CASE("while the core decides about an offer, no other offer of that connection is read") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  std::vector<std::uint64_t> asked;
  b.undecided = [&, &asked = asked](PeerId, std::uint64_t exchange) { asked.push_back(exchange); };
  evil.dial(b);
  for (std::uint64_t i = 1; i <= 100; ++i) REQUIRE(evil.say(evil.offer(b, kChunk, i)));
  REQUIRE(world.until([&] { return !asked.empty(); }));
  for (std::size_t chunk = Scene::kBegun; chunk < 5; ++chunk) scene.ask(chunk);
  REQUIRE(asked == std::vector<std::uint64_t>{1});
  begun = b.values();
  evil.link->close();
  REQUIRE(world.until([&] { return b.answers_ended == 1 && b.exchanger->servers() == 1; }));
  REQUIRE(asked.size() == 1);
  REQUIRE(b.values() == begun);
  for (std::size_t chunk = 5; chunk < kChunks; ++chunk) scene.ask(chunk);
  REQUIRE(Scene::mixed_up_to(b.values(), kChunks));
}

TEST_CASE("chunks without an offer are dropped in any number, and the connection remains usable") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  evil.dial(b);
  for (std::size_t i = 0; i < 3000; ++i) {
    // Also chunks of the exchange that is under way on another connection.
    REQUIRE(evil.say(head_of(ChunkKind::offer, i % kChunks, i % 2 == 0 ? Scene::kHonest : i),
                     chunk_of(kA, i % kChunks)));
  }
  REQUIRE(evil.say(evil.offer(b, kChunk, 7)));
  REQUIRE(world.until([&] { return b.accepted == 2; }));
  REQUIRE(b.mixer->counters().answered == Scene::kBegun);
  REQUIRE(b.counters().chunks_refused == 0);
  REQUIRE(b.values() == begun);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {  // the peer's own values, so mixing changes nothing
    const auto same = chunk_of(begun, chunk);
    REQUIRE(evil.say(head_of(ChunkKind::offer, chunk, 7), same));
    REQUIRE(evil.hear());
  }
  REQUIRE(b.answers_completed == 1);
  scene.require_unharmed(1);
}

TEST_CASE("a state request in the middle of an exchange is served, and the exchange continues after it") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  REQUIRE(honest.say(wire::StateRequest{kFingerprint, kChunk, 0}));
  REQUIRE(honest.hear_message<wire::StateHead>().chunks == kChunks);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto frame = honest.hear();
    REQUIRE(frame);
    REQUIRE(frame->chunk.kind == ChunkKind::state);
    REQUIRE(floats_of(*frame) == chunk_of(begun, chunk));
  }
  REQUIRE(b.answers_ended == 0);
  scene.require_unharmed();
}

TEST_CASE("the first of two equal replies is mixed, and the second ends the exchange") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  begin_with_evil(scene, 9);
  const auto reply = [&] { return evil.say(head_of(ChunkKind::reply, 4, 9, 0.5F), chunk_of(kA, 4)); };
  // The partner returns the chunks that it received, with weight 0: neither side mixes.
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    REQUIRE(evil.say(head_of(ChunkKind::reply, chunk, 9, 0), chunk_of(kA, chunk)));
    REQUIRE(evil.hear());
  }
  REQUIRE(b.values() == begun);
  REQUIRE(reply());
  REQUIRE(evil.hear());  // the window advances: the reply was accepted
  REQUIRE(b.counters().half_applied_chunks == 0);
  const auto once = b.values();
  for (std::size_t i = 0; i < kFloats; ++i) {
    const double expected = i / kChunk == 4 ? 0.5 * (double{kA[i]} + double{kB[i]}) : double{begun[i]};
    REQUIRE(std::abs(double{once[i]} - expected) <= 1e-6);
  }
  REQUIRE(reply());
  REQUIRE(world.until([&] { return b.ended.size() == 1; }));
  REQUIRE(b.ended.back().outcome == Outcome::aborted);
  REQUIRE(b.counters().chunks_refused == 1);
  REQUIRE(b.counters().half_applied_chunks == kWindow);
  REQUIRE(b.values() == once);
  REQUIRE(b.answers_ended == 0);  // the correct exchange is not affected
  REQUIRE(b.exchanger->servers() == 1);
}

TEST_CASE("replies after an exchange's last one close their connection and mix nothing") {
  Scene scene(GENERATE(Kind::tcp, Kind::memory));
  auto& [world, b, honest, evil, begun] = scene;
  begin_with_evil(scene, 9);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    REQUIRE(evil.say(head_of(ChunkKind::reply, chunk, 9, 0), chunk_of(kA, chunk)));
    if (chunk + kWindow < kChunks) REQUIRE(evil.hear());
  }
  REQUIRE(world.until([&] { return b.ended.size() == 1; }));
  REQUIRE(b.ended.back().outcome == Outcome::completed);
  REQUIRE(b.exchanger->idle() == 1);
  SECTION("while the connection is idle") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, kChunks - 1, 9, 0.5F), chunk_of(kA, kChunks - 1)));
    REQUIRE(world.until([&] { return b.exchanger->idle() == 0; }));
    REQUIRE_FALSE(evil.hear());
    REQUIRE(b.counters().half_applied_chunks == 0);
  }
  SECTION("when the next exchange has begun on it") {
    b.exchanger->begin(10, {evil.id, evil.address});
    REQUIRE(evil.hear_message<wire::ExchangeOffer>().exchange == 10);
    for (std::size_t chunk = 0; chunk < kWindow; ++chunk) REQUIRE(evil.hear());
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 9, 0.5F), chunk_of(kA, 0)));
    REQUIRE(world.until([&] { return b.ended.size() == 2; }));
    REQUIRE(b.ended.back().outcome == Outcome::aborted);
    REQUIRE(b.counters().chunks_refused == 1);
    REQUIRE(b.counters().half_applied_chunks == kWindow);
  }
  REQUIRE(b.exchanger->idle() == 0);
  scene.require_unharmed();
}

TEST_CASE("a partner that never reads holds one exchange and at most a window until an abort") {
  constexpr std::size_t kMany = 2'000'000,
                        kLarge = 65'536;  // chunks of 256 KiB, more than a connection holds
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    ExchangerOptions options = steady();
    options.window = 100;
    TestPeer a(world, 1, options), other(world, 3, options);
    const auto x = random_floats(kMany, 3);
    a.attach(x, kLarge);
    other.attach(random_floats(kMany, 4), kLarge);
    Stranger deaf(world, 66);
    a.exchanger->begin(1, {deaf.id, deaf.address});
    a.last_exchange = 1;
    deaf.await_dial();
    // Another exchange meanwhile lets the first one write as much as the connection takes.
    REQUIRE(exchange(world, other, a) == Outcome::completed);
    REQUIRE(a.ended.empty());
    REQUIRE(a.exchanger->under_way() == 1);
    a.exchanger->abort(1);
    const auto half = a.counters().half_applied_chunks;
    REQUIRE(half >= 1);
    REQUIRE(half <= (kMany + kLarge - 1) / kLarge);
    deaf.hear_the_end();
    REQUIRE(exchange(world, a, other) == Outcome::completed);
    const auto y = a.values(), z = other.values();
    for (std::size_t i = 0; i < kMany; ++i) {
      if (std::abs(y[i] - z[i]) > 1e-6F) FAIL("they differ at " << i);
    }
    REQUIRE(a.counters().half_applied_chunks == half);
  }
}

}  // namespace starling::node
