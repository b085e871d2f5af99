// Remotes that send invalid or unexpected frames, and floods of connections.
#include "node/exchange/exchanger.h"

#include <limits>

#include "tests/node/eleven_chunks.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using wire::ChunkKind;
using wire::RefusalReason;

}  // namespace

TEST_CASE("a poisoned chunk never changes a responder's arena, is counted, and ends only that connection") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const float poison =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity(), 1e38f);
  World world(kind);
  TestPeer b(world, 2);
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
  // A later correct exchange by the same remote is accepted.
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

TEST_CASE("a poisoned reply never changes an initiator's arena, and ends the exchange as poisoned") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  const float poison =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity(), 1e38f);
  World world(kind);
  TestPeer a(world, 1);
  a.attach(kA, kChunk);
  Stranger evil(world, 66);
  a.exchanger->begin(1, {evil.id, evil.address});
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

TEST_CASE("a chunk out of order, of another length or of an unexpected kind ends the connection") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(evil.offer(b, kChunk)));
  std::uint64_t refused = 1;
  SECTION("the second chunk first") { REQUIRE(evil.say(head_of(ChunkKind::offer, 1), chunk_of(kA, 1))); }
  SECTION("an offset between chunks") {
    auto head = head_of(ChunkKind::offer, 0);
    head.offset = 1;
    REQUIRE(evil.say(head, chunk_of(kA, 0)));
  }
  SECTION("an offset beyond the arena") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 1'000'000), chunk_of(kA, 0)));
  }
  SECTION("too short") { REQUIRE(evil.say(head_of(ChunkKind::offer, 0), {1.0f})); }
  SECTION("too long") {
    REQUIRE(evil.say(head_of(ChunkKind::offer, 0), std::vector<float>(kChunk + 1, 1.0f)));
  }
  SECTION("an unexpected message") {
    REQUIRE(evil.say(wire::Ping{}));
    refused = 0;
  }
  SECTION("bytes that do not form a frame") {
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
  TestPeer b(world, 2);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0), chunk_of(kA, 0)));  // before any offer
  REQUIRE(evil.say(evil.offer(b, kChunk, 1)));
  REQUIRE(evil.say(head_of(ChunkKind::offer, 0, 5), chunk_of(kA, 0)));
  REQUIRE(evil.say(head_of(ChunkKind::state, 0, 1), chunk_of(kA, 0)));
  REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), chunk_of(kA, 0)));
  REQUIRE(evil.say(evil.offer(b, kChunk, 2)));  // ends the first one
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

TEST_CASE("a responder that answers anything else is aborted, and the arena is unchanged") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer a(world, 1);
  a.attach(kA, kChunk);
  Stranger evil(world, 66);
  a.exchanger->begin(1, {evil.id, evil.address});
  evil.await_dial();
  REQUIRE(evil.hear_message<wire::ExchangeOffer>().exchange == 1);
  REQUIRE(evil.hear());
  SECTION("the second chunk first") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 1, 1, 0.5f), chunk_of(kB, 1)));
  }
  SECTION("another exchange") { REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 2, 0.5f), chunk_of(kB, 0))); }
  SECTION("too short") { REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), {1.0f})); }
  SECTION("too short, and not finite") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.5f), {std::numeric_limits<float>::infinity()}));
  }
  SECTION("another kind") { REQUIRE(evil.say(head_of(ChunkKind::offer, 0), chunk_of(kB, 0))); }
  SECTION("a refusal of another exchange") {
    REQUIRE(evil.say(wire::ExchangeRefusal{7, RefusalReason::busy, 0}));
  }
  SECTION("an unexpected message") { REQUIRE(evil.say(wire::Ping{})); }
  SECTION("a half exchange, then a refusal") {
    REQUIRE(evil.say(head_of(ChunkKind::reply, 0, 1, 0.0f), chunk_of(kB, 0)));
    REQUIRE(evil.say(wire::ExchangeRefusal{1, RefusalReason::busy, 0}));
  }
  REQUIRE(world.until([&] { return a.ended.size() == 1; }));
  REQUIRE(a.ended.back().outcome == Outcome::aborted);
  REQUIRE(a.values() == kA);
  require_well(world, a);
}

TEST_CASE("replies of weight 0 complete an exchange in which neither side mixes") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer a(world, 1);
  a.attach(kA, kChunk);
  Stranger poor(world, 2);
  a.exchanger->begin(1, {poor.id, poor.address});
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

TEST_CASE("a frame that claims more bytes than the protocol allows is rejected before its body arrives") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer b(world, 2);
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

TEST_CASE(
    "a remote that sends requests without end and reads nothing is disconnected, with little memory used") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.stall = std::chrono::milliseconds(50);
  World world(kind);
  world.tcp.socket_buffer_bytes = 64 * 1024;
  TestPeer b(world, 2, options);
  b.attach(kB, kChunk);
  Stranger evil(world, 66);
  evil.dial(b);
  wire::Message question;
  std::vector<std::byte> behind;  // what follows each request
  SECTION("offers with a chunk each") {
    question = evil.offer(b, kChunk);
    auto head = head_of(ChunkKind::offer, 0);
    head.floats = kChunk;
    const Bytes values = std::as_bytes(std::span(kB).first(kChunk));
    behind.resize(wire::kChunkPrefixBytes);
    wire::write_chunk_prefix(head, values, std::span(behind).first<wire::kChunkPrefixBytes>());
    behind.insert(behind.end(), values.begin(), values.end());
  }
  SECTION("parameters") { question = wire::StateRequest{kFingerprint, kChunk, 0}; }
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
    SECTION("parameters of another model") { question = wire::StateRequest{kFingerprint + 1, kChunk, 0}; }
  }
  // A connection holds less than a MiB in each direction; a million requests are far more.
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

TEST_CASE("with too many inbound connections the oldest idle ones are closed, and busy ones stay") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  ExchangerOptions options = steady();
  options.servers_max = 4;
  World world(kind);
  TestPeer b(world, 2, options);
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

}  // namespace starling::node
