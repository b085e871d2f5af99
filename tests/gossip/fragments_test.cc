// Exchanges of one fragment of the arena each (gossip.fragments), with scripted events.
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

TEST_CASE("fragments take turns in a peer's own exchanges, and settling brings all of them together") {
  Life life;
  life.trains(in_turns(3, 12, {{}, 12, {}}), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{3, 3})).empty());
  for (std::uint64_t turn = 1; turn <= 2; ++turn) {
    const auto begun = all<BeginExchange>(life.happens(Stepped{4 * turn, 4 * turn})).at(0);
    REQUIRE(begun.terms.round == turn);
    REQUIRE(begun.terms.part == Part{static_cast<std::uint32_t>(turn % 3), 3});
    life.happens(ExchangeEnded{begun.exchange, Outcome::completed});
  }
  life.happens(Stepped{12, 12});
  auto due = life.meets(member(2, wire::Phase::settling));
  std::vector<std::uint32_t> settled;
  while (life.phase() != wire::Phase::finished) {
    const auto begun = all<BeginExchange>(due).at(0);
    settled.push_back(begun.terms.part.index);
    due = life.happens(ExchangeEnded{begun.exchange, Outcome::completed});
  }
  REQUIRE(settled.size() >= 3);
  REQUIRE(settled.size() % 3 == 0);
  for (std::size_t k = 0; k < settled.size(); ++k) REQUIRE(settled[k] == k % 3);
}

TEST_CASE("an answer has the fragment of the offer, and does not change the turn") {
  Life life;
  life.trains(in_turns(4, 40), {2});
  const auto first = all<BeginExchange>(life.happens(Stepped{10, 10})).at(0);
  REQUIRE(first.terms.part == Part{1, 4});
  for (const std::uint64_t turn : {std::uint64_t{17}, std::uint64_t{60}, UINT64_MAX}) {
    const auto answer = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, turn, turn})).at(0);
    REQUIRE(answer.accept);
    REQUIRE(answer.terms.part == Part{static_cast<std::uint32_t>(turn % 4), 4});
  }
  life.happens(ExchangeEnded{first.exchange, Outcome::completed});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{20, 20})).at(0).terms.part == Part{2, 4});
}

}  // namespace starling::gossip
