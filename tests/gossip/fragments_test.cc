// Outer steps whose rounds take turns with the fragments of the arena (gossip.fragments), with scripted
// events.
#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

RunRules in_turns(std::uint32_t fragments, std::uint64_t every, End end = {}) {
  RunRules rules = rules_of({Pace::Kind::steps, every, {}}, end, "complete", Rule::noloco);
  rules.fragments = fragments;
  return rules;
}

}  // namespace

TEST_CASE("fragments take turns: each round exchanges one, and the end makes the outer steps of all") {
  Life life;
  life.trains(in_turns(3, 12, {{}, 12, {}}), {2});
  REQUIRE(all<BeginRound>(life.happens(Stepped{3, 3})).empty());
  for (std::uint64_t round = 1; round <= 2; ++round) {
    const auto due = life.happens(Stepped{4 * round, 4 * round});
    REQUIRE(all<BeginRound>(due).at(0).round == round);
    const auto begun = all<BeginExchange>(due).at(0);
    REQUIRE(begun.terms.part == Part{static_cast<std::uint32_t>(round % 3), 3});
    life.happens(ExchangeEnded{begun.exchange, Outcome::completed});
  }
  auto due = life.happens(Stepped{12, 12});
  std::uint64_t settled = 0;
  std::vector<std::uint64_t> last;
  while (life.phase() != wire::Phase::finished) {
    ++settled;
    due = life.happens(ExchangeEnded{all<BeginExchange>(due).at(0).exchange, Outcome::completed});
  }
  for (const BeginRound& begun : all<BeginRound>(due)) last.push_back(begun.round);
  REQUIRE(last.size() == 3);
  REQUIRE(last[1] == last[0] + 1);
  REQUIRE(last[2] == last[0] + 2);
  REQUIRE(settled % 3 == 0);
}

TEST_CASE("an answer has the fragment of the offer, and catches up with its turn") {
  Life life;
  life.trains(in_turns(4, 40), {2});
  life.happens(Stepped{10, 10});  // in round 1
  const auto near = life.happens(ExchangeOffered{PeerId{2}, 1, 17});
  REQUIRE(all<BeginRound>(near).empty());
  REQUIRE(all<AnswerOffer>(near).at(0).terms.part == Part{1, 4});
  const auto far = life.happens(ExchangeOffered{PeerId{2}, 2, 60});
  REQUIRE(all<AnswerOffer>(far).at(0).accept);
  REQUIRE(all<AnswerOffer>(far)[0].terms.part == Part{0, 4});
  const auto begun = all<BeginRound>(far);
  REQUIRE(begun.front().round == 62);  // whose turn is next: that of round 2
  REQUIRE(begun.back().round % 4 == 0);
}

}  // namespace starling::gossip
