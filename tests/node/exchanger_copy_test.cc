// A joiner's first copy of the parameters.
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

}  // namespace

TEST_CASE("a joiner's copy equals its donor's parameters bit by bit") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    TestPeer joiner(world, 1), donor(world, 2);
    joiner.attach(std::vector<float>(kFloats, 0.0f), kChunk);
    auto values = kB;
    values[0] = -0.0f;
    values[1] = std::numeric_limits<float>::denorm_min();
    donor.attach(values, 64);  // the joiner's own grid counts
    joiner.exchanger->fetch_state({donor.id, donor.address});
    REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
    const auto copy = joiner.values();
    REQUIRE(std::memcmp(copy.data(), values.data(), kFloats * sizeof(float)) == 0);
    REQUIRE(joiner.states_lost.empty());
    REQUIRE(world.until([&] { return donor.exchanger->servers() == 0; }));
  }
}

TEST_CASE("a copy from a peer without parameters, or from no peer, is lost with a reason") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer joiner(world, 1), empty(world, 2), other(world, 3);
  joiner.attach(kA, kChunk);
  other.attach(kB, kChunk, kFingerprint + 1);
  const Address gone = TestPeer(world, 4).address;
  const auto lost = [&](PeerId id, const Address& address) {
    const std::size_t before = joiner.states_lost.size();
    joiner.exchanger->fetch_state({id, address});
    REQUIRE(world.until([&] { return joiner.states_lost.size() > before; }));
    const std::string why = joiner.states_lost.back();
    CAPTURE(why);
    REQUIRE(why.find(to_string(address)) != std::string::npos);
    return why;
  };
  REQUIRE(lost(empty.id, empty.address).find("no parameters to send") != std::string::npos);
  REQUIRE(lost(other.id, other.address).find("another layout") != std::string::npos);
  REQUIRE(lost(PeerId{55}, empty.address).find(", not " + to_string(PeerId{55})) != std::string::npos);
  REQUIRE(lost(PeerId{4}, gone).find("cannot reach") != std::string::npos);
  REQUIRE(joiner.values() == kA);
  REQUIRE(joiner.states_arrived == 0);
}

TEST_CASE("a first copy reports its progress after every chunk") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer joiner(world, 1), donor(world, 2);
  joiner.attach(kA, kChunk);
  donor.attach(kB, kChunk);
  joiner.exchanger->fetch_state({donor.id, donor.address});
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  REQUIRE(joiner.advances.size() == kChunks);
  for (std::size_t i = 0; i < kChunks; ++i) {
    REQUIRE(joiner.advances[i] == std::pair<std::uint64_t, std::uint64_t>(i + 1, kChunks));
  }
}

TEST_CASE("a first copy resumes where the last donor stopped, and keeps the chunks in place") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer joiner(world, 1);
  joiner.attach(kA, kChunk);
  constexpr std::size_t kFirst = 4;
  Stranger first(world, 2), second(world, 3);
  joiner.exchanger->fetch_state({first.id, first.address});
  first.await_dial();
  REQUIRE(first.hear_message<wire::StateRequest>().first_chunk == 0);
  REQUIRE(first.say(wire::StateHead{kFloats, kChunks}));
  for (std::size_t chunk = 0; chunk < kFirst; ++chunk) {
    REQUIRE(first.say(head_of(ChunkKind::state, chunk, 0), chunk_of(kB, chunk)));
  }
  REQUIRE(world.until([&] { return joiner.advances.size() == kFirst; }));
  bool poisoned = false, aborted = false;
  SECTION("it died") { first.link->close(); }
  SECTION("it sent poison") {
    auto values = chunk_of(kB, kFirst);
    values.back() = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(first.say(head_of(ChunkKind::state, kFirst, 0), values));
    poisoned = true;
  }
  SECTION("it started over") { REQUIRE(first.say(head_of(ChunkKind::state, 0, 0), chunk_of(kA, 0))); }
  SECTION("it was aborted") {
    joiner.exchanger->abort_fetch();
    joiner.exchanger->abort_fetch();
    aborted = true;
  }
  if (!aborted) {
    REQUIRE(world.until([&] { return joiner.states_lost.size() == 1; }));
  }
  REQUIRE(joiner.states_unusable == (poisoned ? 1 : 0));
  auto expected = kA;
  std::copy_n(kB.begin(), kFirst * kChunk, expected.begin());
  REQUIRE(joiner.values() == expected);

  joiner.exchanger->fetch_state({second.id, second.address});
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

TEST_CASE("a resumed copy takes only the missing chunks, of an arena of its own length") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer joiner(world, 1), donor(world, 2), other(world, 3);
  joiner.attach(kA, kChunk);
  donor.attach(kB, kChunk);
  other.attach(kB, kChunk, kFingerprint + 1);
  joiner.on_advance = [&] {
    if (joiner.advances.size() == 3) joiner.exchanger->abort_fetch();  // from inside the event
  };
  joiner.exchanger->fetch_state({donor.id, donor.address});
  REQUIRE(world.until([&] { return joiner.advances.size() == 3; }));
  const auto before = joiner.values();
  const auto lose = [&](const wire::StateHead& head) {
    Stranger liar(world, 50);
    const auto lost = joiner.states_lost.size();
    joiner.exchanger->fetch_state({liar.id, liar.address});
    liar.await_dial();
    REQUIRE(liar.hear_message<wire::StateRequest>().first_chunk == 3);
    REQUIRE(liar.say(head));
    REQUIRE(world.until([&] { return joiner.states_lost.size() > lost; }));
    REQUIRE(joiner.values() == before);
  };
  lose({kFloats, kChunks});
  lose({kFloats, kChunks - 4});
  lose({kFloats + 1, kChunks - 3});
  joiner.exchanger->fetch_state({other.id, other.address});
  REQUIRE(world.until([&] { return joiner.states_lost.size() == 4; }));
  REQUIRE(joiner.values() == before);
  REQUIRE(joiner.states_unusable == 3);  // the other one refuses
  REQUIRE(joiner.advances.size() == 3);
  joiner.exchanger->fetch_state({donor.id, donor.address});
  REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
  REQUIRE(joiner.values() == kB);
  REQUIRE(joiner.advances.size() == kChunks);
}

TEST_CASE("a donor aborted at any moment leaves no trace in the next donor's copy") {
  for (std::size_t turns = 0; turns < 40; ++turns) {
    CAPTURE(turns);
    World world(Kind::memory);
    TestPeer joiner(world, 1), donor(world, 2), other(world, 3);
    joiner.attach(kA, kChunk);
    donor.attach(kB, kChunk);
    other.attach(kB, kChunk);
    joiner.exchanger->fetch_state({donor.id, donor.address});
    for (std::size_t i = 0; i < turns; ++i) world.io.poll_one();
    if (joiner.states_arrived == 1) break;
    joiner.exchanger->abort_fetch();
    joiner.exchanger->fetch_state({other.id, other.address});
    REQUIRE(world.until([&] { return joiner.states_arrived == 1; }));
    REQUIRE(joiner.values() == kB);
    REQUIRE(joiner.states_lost.empty());
    REQUIRE(joiner.advances.size() == kChunks);
    REQUIRE(world.until([&] { return donor.exchanger->servers() == 0; }));
  }
}

TEST_CASE("a donor serves a few joiners at once, refuses the others, and exchanges meanwhile") {
  constexpr std::size_t kMany = 600'000, kLarge = 10'000;  // more than a connection holds
  ExchangerOptions options = steady();
  options.answers.copies = 3;
  World world(Kind::memory);
  TestPeer donor(world, 1, options), partner(world, 2);
  const auto values = random_floats(kMany, 3);
  donor.attach(values, kLarge);
  partner.attach(random_floats(kMany, 4), kLarge);
  const wire::StateRequest request{kFingerprint, kLarge, 0};
  std::vector<std::unique_ptr<Stranger>> joiners;
  for (std::uint64_t i = 0; i < 5; ++i) {
    joiners.push_back(std::make_unique<Stranger>(world, 10 + i));
    joiners.back()->dial(donor);
    REQUIRE(joiners.back()->say(request));
    if (i < options.answers.copies) {
      REQUIRE(joiners.back()->hear_message<wire::StateHead>().chunks == kMany / kLarge);
    } else {
      REQUIRE(joiners.back()->hear_message<wire::Refusal>().reason == RefusalReason::busy);
    }
  }
  REQUIRE(exchange(world, partner, donor) == Outcome::completed);

  joiners[0]->link->close();  // a place becomes free when a joiner leaves
  REQUIRE(world.until([&] { return donor.exchanger->servers() == 5; }));
  REQUIRE(joiners[4]->say(request));
  REQUIRE(joiners[4]->hear_message<wire::StateHead>().chunks == kMany / kLarge);
  for (std::size_t chunk = 0; chunk < kMany / kLarge; ++chunk) REQUIRE(joiners[4]->hear());
  REQUIRE(joiners[3]->say(request));  // or when it has its copy
  REQUIRE(joiners[3]->hear_message<wire::StateHead>().chunks == kMany / kLarge);
}

TEST_CASE("two hundred joiners at once all get their copy, from the first member and from one another") {
  World world(Kind::memory);
  TestPeer donor(world, 1);
  donor.attach(kB, kChunk);
  std::vector<std::unique_ptr<TestPeer>> joiners;
  std::size_t asked = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    joiners.push_back(std::make_unique<TestPeer>(world, 10 + i));
    TestPeer& joiner = *joiners.back();
    joiner.attach(kA, kChunk);
    joiner.on_state_lost = [&] {
      // As the core does: choose another member, one that has its copy.
      std::vector<const TestPeer*> ready = {&donor};
      for (const auto& other : joiners) {
        if (other->states_arrived == 1) ready.push_back(other.get());
      }
      const TestPeer& next = *ready[++asked % ready.size()];
      joiner.exchanger->fetch_state({next.id, next.address});
    };
    joiner.exchanger->fetch_state({donor.id, donor.address});
  }
  REQUIRE(world.until([&] {
    return std::all_of(joiners.begin(), joiners.end(), [](const auto& j) { return j->states_arrived == 1; });
  }));
  for (const auto& joiner : joiners) REQUIRE(joiner->values() == kB);
  REQUIRE(donor.exchanger->servers() <= ExchangerOptions{}.servers_max);
}

TEST_CASE("a first copy rejects poison, a chunk out of order and another length") {
  const Kind kind = GENERATE(Kind::tcp, Kind::memory);
  World world(kind);
  TestPeer joiner(world, 1);
  joiner.attach(kA, kChunk);
  Stranger donor(world, 2);
  joiner.exchanger->fetch_state({donor.id, donor.address});
  donor.await_dial();
  REQUIRE(donor.hear_message<wire::StateRequest>().chunk_floats == kChunk);
  std::uint64_t refused = 0;
  bool unusable = true;
  const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), 1e38f);
  SECTION("poison") {
    REQUIRE(donor.say(wire::StateHead{kFloats, kChunks}));
    auto values = chunk_of(kB, 0);
    values[50] = poison;
    REQUIRE(donor.say(head_of(ChunkKind::state, 0, 0), values));
    refused = 1;
  }
  SECTION("out of order") {
    unusable = false;
    REQUIRE(donor.say(wire::StateHead{kFloats, kChunks}));
    REQUIRE(donor.say(head_of(ChunkKind::state, 1, 0), chunk_of(kB, 1)));
  }
  SECTION("another length") { REQUIRE(donor.say(wire::StateHead{kFloats + 1, kChunks})); }
  SECTION("fewer chunks") { REQUIRE(donor.say(wire::StateHead{kFloats, kChunks - 1})); }
  SECTION("something else") { REQUIRE(donor.say(wire::Ping{})); }
  REQUIRE(world.until([&] { return joiner.states_lost.size() == 1; }));
  REQUIRE(joiner.values() == kA);
  REQUIRE(joiner.counters().chunks_refused == refused);
  REQUIRE(joiner.states_unusable == static_cast<int>(unusable));
  REQUIRE(joiner.advances.empty());
  REQUIRE(joiner.states_arrived == 0);
}

}  // namespace starling::node
