// Members that have come lately, under a rule that bounds the influence of one member.
#include <map>
#include <vector>

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

// Peer 1, which exchanges every second with whom it chooses; each exchange completes at once.
struct Exchanging {
  explicit Exchanging(Rule rule) {
    life.trains(rules_of({Pace::Kind::time, 0, 1s}, {}, "complete", rule), members);
  }
  void come(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t k = first; k <= last; ++k) {
      members.push_back(k);
      life.meets(member(k));
    }
  }
  // The exchanges begun until then, by partner, and whether the core called it a newcomer.
  struct Count {
    int begun = 0, as_newcomer = 0;
  };
  std::map<std::uint64_t, Count> until(Instant end) {
    std::map<std::uint64_t, Count> counts;
    while (life.now < end) {
      for (const auto& begin : all<BeginExchange>(life.waits(life.now + 100ms, members))) {
        Count& count = counts[begin.partner.id.value];
        ++count.begun;
        count.as_newcomer += begin.terms.newcomer ? 1 : 0;
        life.happens(ExchangeEnded{begin.exchange, Outcome::completed});
      }
    }
    return counts;
  }

  std::vector<std::uint64_t> members{2, 3};
  Life life;
};

}  // namespace

TEST_CASE("many newcomers get one of four exchanges of a peer whose rule does not trust them") {
  Exchanging peer(Rule::clipped);
  peer.until(at(100s));
  peer.come(10, 109);
  int old = 0, fresh = 0;
  for (const auto& [id, count] : peer.until(at(190s))) {
    (id < 10 ? old : fresh) += count.begun;
    CHECK(count.as_newcomer == (id < 10 ? 0 : count.begun));
  }
  CHECK(fresh >= 20);
  CHECK(fresh <= 24);
  CHECK(old >= 60);
  // Then they have been there for half of the time.
  peer.until(at(205s));
  fresh = 0;
  for (const auto& [id, count] : peer.until(at(255s))) {
    CHECK(count.as_newcomer == 0);
    if (id >= 10) fresh += count.begun;
  }
  CHECK(fresh >= 40);
}

TEST_CASE("a peer that knows only newcomers exchanges with them") {
  Exchanging peer(Rule::clipped);
  peer.until(at(100s));
  for (const std::uint64_t gone : {2, 3}) peer.life.meets(said_to_be(member(gone), wire::Liveness::left));
  peer.members.clear();
  peer.come(10, 12);
  int fresh = 0;
  for (const auto& [id, count] : peer.until(at(120s))) fresh += count.begun;
  CHECK(fresh >= 18);
}

TEST_CASE("other rules know no newcomers") {
  Exchanging peer(Rule::pairwise);
  peer.until(at(100s));
  peer.come(10, 109);
  int fresh = 0;
  for (const auto& [id, count] : peer.until(at(150s))) {
    CHECK(count.as_newcomer == 0);
    if (id >= 10) fresh += count.begun;
  }
  CHECK(fresh >= 40);
}

}  // namespace starling::gossip
