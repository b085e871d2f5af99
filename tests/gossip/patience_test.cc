// Components that limit exchanges: patience, acceptance and shares.

#include "gossip/meeting/pacing.h"
#include "gossip/meeting/partner.h"
#include "tests/catch.h"
#include "tests/gossip/life.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

TEST_CASE("the limit is the ceiling for a new partner, then eight times the partner's usual silence") {
  Patience patience(10s);
  REQUIRE(patience.limit(PeerId{2}) == 10s);
  patience.went_well(PeerId{2}, 500ms);
  REQUIRE(patience.limit(PeerId{2}) == 4s);
  REQUIRE(patience.limit(PeerId{3}) == 10s);
  patience.went_well(PeerId{3}, 1us);
  REQUIRE(patience.limit(PeerId{3}) == 1s);  // the minimum
}

TEST_CASE("a longer silence raises the limit at once; a shorter one lowers it slowly") {
  Patience patience(10s);
  patience.went_well(PeerId{2}, 200ms);
  patience.went_well(PeerId{2}, 1s);
  REQUIRE(patience.limit(PeerId{2}) == 8s);
  patience.went_well(PeerId{2}, 200ms);
  REQUIRE(patience.limit(PeerId{2}) == 6400ms);  // 3/4 of 1 s and 1/4 of 200 ms
}

TEST_CASE("each timeout doubles the partner's limit and the ceiling, until an exchange completes") {
  Patience patience(10s);
  patience.went_well(PeerId{2}, 1ms);
  patience.timed_out(PeerId{2});
  REQUIRE(patience.limit(PeerId{2}) == 2s);
  patience.timed_out(PeerId{2});
  REQUIRE(patience.limit(PeerId{2}) == 4s);
  REQUIRE(patience.limit(PeerId{9}) == 40s);
  patience.went_well(PeerId{2}, 1ms);
  REQUIRE(patience.limit(PeerId{2}) == 1s);
  REQUIRE(patience.limit(PeerId{9}) == 10s);
  for (int k = 0; k < 100; ++k) patience.timed_out(PeerId{2});
  REQUIRE(patience.limit(PeerId{2}) > 0s);
  REQUIRE(patience.limit(PeerId{9}) <= 24h);
}

TEST_CASE("after a burst of four, offers are accepted at twice the rate that this peer's pace would have") {
  const double share = GENERATE(1.0, 0.25);
  Acceptance acceptance;
  acceptance.start(at(0s));
  for (int k = 1; k <= 100; ++k) acceptance.own(at(k * 1s));
  int taken = 0;
  for (int k = 0; k < 1000; ++k) taken += acceptance.take(at(100s + k * 100ms), PeerId{2}, at(0s), share);
  REQUIRE(taken >= 3 + 2 * 99 * share);
  REQUIRE(taken <= 4 + 2 * 100 * share);
  REQUIRE(acceptance.take(at(200s), PeerId{3}, at(0s), share));  // tokens are per partner
}

TEST_CASE("new members share what is accepted, however many there are") {
  Acceptance acceptance;
  acceptance.start(at(0s));
  for (int k = 1; k <= 100; ++k) acceptance.own(at(k * 1s));
  std::uint64_t id = 10;
  int taken = 0;
  for (int k = 0; k < 1000; ++k) {
    const Instant now = at(100s + k * 10ms);
    taken += acceptance.take(now, PeerId{++id}, now, 1);
  }
  REQUIRE(taken <= 4 + 10 / 2);
  REQUIRE(taken >= 4 + 9 / 2);
  REQUIRE(acceptance.take(at(110s), PeerId{2}, at(50s), 1));  // one that is known for long
  REQUIRE(acceptance.take(at(110s), PeerId{3}, at(0s), 1));   // or was there before
}

TEST_CASE("a new member cannot take what is accepted from the other new ones") {
  Acceptance acceptance;
  acceptance.start(at(0s));
  for (int k = 1; k <= 20; ++k) acceptance.own(at(k * 1s));
  int greedy = 0, others = 0;
  for (int k = 0; k < 200; ++k) {
    const Instant now = at(20s + k * 50ms);
    greedy += acceptance.take(now, PeerId{2}, at(15s), 0.25);
    if (k % 20 == 0)
      others += acceptance.take(now, PeerId{10 + static_cast<std::uint64_t>(k) / 20 % 4}, at(15s), 0.25);
  }
  REQUIRE(others >= 3);  // of 10 that they offer
  REQUIRE(greedy <= 4 + 10 / 8 + 1);
}

TEST_CASE("the bucket that was used last is forgotten last") {
  Acceptance acceptance;
  acceptance.start(at(0s));
  acceptance.own(at(1h));
  for (int k = 0; k < 4; ++k) REQUIRE(acceptance.take(at(1h), PeerId{1}, at(0s), 0.01));
  for (std::uint64_t id = 2; id < 2000; ++id) {
    REQUIRE(acceptance.take(at(1h + 1ms * id), PeerId{id}, at(0s), 0.01));
    REQUIRE(!acceptance.take(at(1h + 1ms * id), PeerId{1}, at(0s), 0.01));
  }
}

TEST_CASE("with shares by work, a partner with less than half of the samples moves this peer less") {
  wire::Member self = member(1);
  Record partner;
  partner.member = member(2);
  self.samples = 1000;
  const auto share = [&](std::uint64_t samples) {
    partner.member.samples = samples;
    return own_share(Shares::work, at(1s), self, partner);
  };
  REQUIRE(share(5000) == 1.0F);
  REQUIRE(share(500) == 1.0F);
  REQUIRE(share(250) == 0.5F);
  REQUIRE(share(0) == 1.0F / 64);  // the minimum
  self.samples = 0;
  REQUIRE(share(0) == 1.0F);
  self.samples = 1000;
  REQUIRE(own_share(Shares::equal, at(1s), self, partner) == 1.0F);
}

TEST_CASE("with shares by age, a partner without recent progress moves this peer less") {
  Table table;
  table.learn(2, 2);
  for (int k = 1; k <= 20; ++k) {
    wire::Member m = member(2);
    m.samples = static_cast<std::uint64_t>(k) * 32;
    table.tell(at(k * 1s), m);
  }
  const Record& partner = *table.membership.find(PeerId{2});
  REQUIRE(partner.samples_every == 1s);
  const wire::Member self = member(1);
  REQUIRE(own_share(Shares::age, at(20s), self, partner) == 1.0F);
  REQUIRE(own_share(Shares::age, at(28s), self, partner) == 1.0F);
  REQUIRE(own_share(Shares::age, at(36s), self, partner) == 0.5F);
  REQUIRE(own_share(Shares::equal, at(36s), self, partner) == 1.0F);
}

}  // namespace starling::gossip
