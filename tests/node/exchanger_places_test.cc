// Answers and copies are limited in number. Remotes that are silent or do not read hold their places only as
// long as nobody else wants them.
#include <memory>
#include <vector>

#include "tests/node/eleven_chunks.h"

namespace starling::node {
namespace {

using namespace testing;
using gossip::Outcome;
using wire::ChunkKind;
using wire::RefusalReason;

constexpr std::size_t kScarce = 4;

// A peer with kB whose core answers kScarce offers at once.
struct Crowd {
  explicit Crowd(Kind kind, ExchangerOptions options = steady()) : world(kind), b(world, 2, few(options)) {
    b.attach(kB, kChunk);
    b.decide = [this] {
      const bool free = static_cast<std::size_t>(b.accepted - b.answers_ended) < kScarce;
      return Decision{free, RefusalReason::busy};
    };
  }
  static ExchangerOptions few(ExchangerOptions options) {
    options.answers.answers_scarce = kScarce;
    return options;
  }
  Stranger& silent(std::uint64_t id, std::uint64_t exchange = 1) {
    silent_ones.push_back(std::make_unique<Stranger>(world, id));
    Stranger& it = *silent_ones.back();
    it.dial(b);
    const int accepted = b.accepted;
    REQUIRE(it.say(it.offer(b, kChunk, exchange)));
    REQUIRE(world.until([&] { return b.accepted > accepted; }));
    return it;
  }

  World world;
  TestPeer b;
  std::vector<std::unique_ptr<Stranger>> silent_ones;
};

}  // namespace

TEST_CASE("offers without a chunk give way to later ones when all answers are taken") {
  Crowd crowd(GENERATE(Kind::tcp, Kind::memory));
  for (std::uint64_t i = 0; i < kScarce; ++i) crowd.silent(10 + i);
  REQUIRE(crowd.b.answers_ended == 0);
  TestPeer a(crowd.world, 1);
  a.attach(kA, kChunk);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(exchange(crowd.world, a, crowd.b) == Outcome::completed);
    crowd.silent(20 + static_cast<std::uint64_t>(i));  // takes the place again
  }
  REQUIRE(crowd.b.answers_completed == 3);
  crowd.silent_ones.front()->hear_the_end();  // the oldest was ended
}

TEST_CASE("the answers of a peer that wastes them give way first, and its offers end nobody else's") {
  Crowd crowd(GENERATE(Kind::tcp, Kind::memory));
  Stranger& waster = crowd.silent(10, 1);
  for (std::uint64_t i = 2; i <= 5; ++i) {  // each offer ends the silent one before it
    REQUIRE(waster.say(waster.offer(crowd.b, kChunk, i)));
    REQUIRE(crowd.world.until([&] { return crowd.b.accepted == static_cast<int>(i); }));
  }
  Stranger& honest = crowd.silent(20);
  waster.link->close();
  REQUIRE(crowd.world.until([&] { return crowd.b.answers_ended == 5; }));
  for (std::uint64_t i = 0; i < kScarce - 1; ++i) crowd.silent(30 + i);
  Stranger again(crowd.world, 10);
  again.dial(crowd.b);
  REQUIRE(again.say(again.offer(crowd.b, kChunk, 9)));
  REQUIRE(again.hear_message<wire::ExchangeRefusal>().reason == RefusalReason::busy);
  REQUIRE(crowd.b.answers_ended == 5);
  REQUIRE(honest.say(head_of(ChunkKind::offer, 0, 1), chunk_of(kA, 0)));
  REQUIRE(honest.hear());
}

TEST_CASE("an answer whose chunks come does not give way") {
  Crowd crowd(GENERATE(Kind::tcp, Kind::memory));
  for (std::uint64_t i = 0; i < kScarce; ++i) {
    Stranger& busy = crowd.silent(10 + i);
    REQUIRE(busy.say(head_of(ChunkKind::offer, 0, 1), chunk_of(kA, 0)));
    REQUIRE(busy.hear());
  }
  TestPeer a(crowd.world, 1);
  a.attach(kA, kChunk);
  REQUIRE(exchange(crowd.world, a, crowd.b) == Outcome::rejected);
  REQUIRE(crowd.b.answers_ended == 0);
}

TEST_CASE("an offer that a core refuses for another reason ends nobody's answer") {
  Crowd crowd(Kind::memory);
  for (std::uint64_t i = 0; i < kScarce; ++i) crowd.silent(10 + i);
  crowd.b.decide = [] { return Decision{false, RefusalReason::quarantined}; };
  TestPeer a(crowd.world, 1);
  a.attach(kA, kChunk);
  REQUIRE(exchange(crowd.world, a, crowd.b) == Outcome::rejected);
  REQUIRE(crowd.b.answers_ended == 0);
}

TEST_CASE("a third offer of one peer ends its oldest answer") {
  Crowd crowd(GENERATE(Kind::tcp, Kind::memory));
  Stranger& other = crowd.silent(20);
  Stranger& first = crowd.silent(10, 1);
  Stranger& second = crowd.silent(10, 2);
  REQUIRE(crowd.b.answers_ended == 0);
  crowd.silent(10, 3);
  REQUIRE(crowd.b.answers_ended == 1);
  first.hear_the_end();
  for (Stranger* const open : {&second, &other}) {
    const std::uint64_t number = open == &second ? 2 : 1;
    REQUIRE(open->say(head_of(ChunkKind::offer, 0, number), chunk_of(kA, 0)));
    REQUIRE(open->hear());
  }
}

TEST_CASE("a peer that asks for a second copy loses the first one") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;  // more than a connection holds
  World world(Kind::memory);
  ExchangerOptions options = steady();
  options.answers.copies = 2;
  TestPeer donor(world, 1, options);
  donor.attach(random_floats(kMany, 3), kLarge);
  std::vector<std::unique_ptr<Stranger>> joiners;
  for (const std::uint64_t id : {10U, 10U, 10U, 11U}) {
    joiners.push_back(std::make_unique<Stranger>(world, id));
    joiners.back()->dial(donor);
    REQUIRE(joiners.back()->say(wire::StateRequest{kFingerprint, kLarge, 0}));
    REQUIRE(joiners.back()->hear_message<wire::StateHead>().chunks == kMany / kLarge);
  }
  joiners[0]->hear_the_end();
  for (std::size_t chunk = 0; chunk < kMany / kLarge; ++chunk) REQUIRE(joiners[2]->hear());
}

TEST_CASE("a copy that nobody reads gives way after two seconds") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;
  World world(Kind::memory);
  ExchangerOptions options = steady();
  options.answers.copies = 1;
  TestPeer donor(world, 1, options);
  donor.attach(random_floats(kMany, 3), kLarge);
  Stranger deaf(world, 10), joiner(world, 11);
  deaf.dial(donor);
  joiner.dial(donor);
  const wire::StateRequest request{kFingerprint, kLarge, 0};
  REQUIRE(deaf.say(request));
  REQUIRE(deaf.hear_message<wire::StateHead>().chunks == kMany / kLarge);
  int refusals = 0;
  const auto is_given = [&] {
    REQUIRE(joiner.say(request));
    auto answer = world.run(transport::read_message(*joiner.link));
    REQUIRE(answer.ok());
    if (std::holds_alternative<wire::StateHead>(*answer)) return true;
    REQUIRE(std::get<wire::Refusal>(*answer).reason == RefusalReason::busy);
    ++refusals;
    return false;
  };
  const auto begun = std::chrono::steady_clock::now();
  while (!is_given()) world.io.run_for(std::chrono::milliseconds(20));
  REQUIRE(refusals > 0);
  REQUIRE(std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(1900));
  for (std::size_t chunk = 0; chunk < kMany / kLarge; ++chunk) REQUIRE(joiner.hear());
}

TEST_CASE("a copy in chunks of fewer than 1,024 floats is refused, unless the arena is smaller") {
  World world(Kind::memory);
  const std::size_t floats = GENERATE(1100, 1024, 1000);
  TestPeer donor(world, 1, ExchangerOptions{});
  donor.attach(random_floats(floats, 3), kChunk);
  Stranger joiner(world, 10);
  joiner.dial(donor);
  const auto fewest = static_cast<std::uint32_t>(std::min<std::size_t>(1024, floats));
  for (const std::uint32_t chunk_floats : {1U, fewest - 1}) {
    REQUIRE(joiner.say(wire::StateRequest{kFingerprint, chunk_floats, 0}));
    REQUIRE(joiner.hear_message<wire::Refusal>().reason == RefusalReason::malformed);
  }
  REQUIRE(joiner.say(wire::StateRequest{kFingerprint, fewest, 0}));
  REQUIRE(joiner.hear_message<wire::StateHead>().chunks == (floats + fewest - 1) / fewest);
}

TEST_CASE("a joiner whose cells are small asks for several in one chunk") {
  World world(Kind::memory);
  TestPeer joiner(world, 1, ExchangerOptions{}), donor(world, 2, ExchangerOptions{});
  const auto values = random_floats(5000, 3);
  joiner.attach(random_floats(5000, 4), 10);
  donor.attach(values, 10);
  joiner.exchanger->fetch_state({donor.id, donor.address});
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  REQUIRE(joiner.values() == values);
  REQUIRE(joiner.advances.size() == 5);
}

}  // namespace starling::node
