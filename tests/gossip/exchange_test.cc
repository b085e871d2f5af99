#include <set>

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

TEST_CASE("an exchange begins when it is due, one at a time") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 8, {}}), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{7, 70})).empty());
  const auto begun = all<BeginExchange>(life.happens(Stepped{8, 80}));
  REQUIRE(begun.size() == 1);
  REQUIRE(begun[0].partner.id == PeerId{2});
  REQUIRE(begun[0].partner.address == address_of(2));
  // Exchanges that fall due meanwhile are delayed and merged into one.
  REQUIRE(all<BeginExchange>(life.happens(Stepped{16, 160})).empty());
  REQUIRE(all<BeginExchange>(life.happens(Stepped{31, 310})).empty());
  const auto next = all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed}));
  REQUIRE(next.size() == 1);
  REQUIRE(next[0].exchange != begun[0].exchange);
  REQUIRE(all<BeginExchange>(life.happens(ExchangeEnded{next[0].exchange, Outcome::completed})).empty());
  REQUIRE(life.peer.view().exchanges.begun == 2);
  REQUIRE(life.peer.view().exchanges.completed == 2);
}

TEST_CASE("with a pace in time, an exchange begins without any step, at the peer's deadline") {
  Life life;
  life.trains(rules_of({Pace::Kind::time, 0, 50ms}), {2});
  REQUIRE(all<BeginExchange>(life.waits(at(49ms), {2})).empty());
  REQUIRE(all<BeginExchange>(life.waits(at(50ms), {2})).size() == 1);
}

TEST_CASE("the pace always begins the next exchange as soon as the last one is completed") {
  Life life;
  life.happens(Start{});
  life.meets(member(2));
  auto begun = all<BeginExchange>(life.happens(Prepared{rules_of({Pace::Kind::always, 0, {}})}));
  for (int k = 0; k < 5; ++k) {
    REQUIRE(begun.size() == 1);
    begun = all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed}));
  }
}

TEST_CASE("after an exchange was rejected or aborted, the peer pauses for a moment") {
  for (const Outcome outcome : {Outcome::rejected, Outcome::aborted}) {
    Life life;
    life.happens(Start{});
    life.meets(member(2));
    const auto begun = all<BeginExchange>(life.happens(Prepared{rules_of({Pace::Kind::always, 0, {}})}));
    REQUIRE(all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, outcome})).empty());
    life.meets(member(3));
    REQUIRE(all<BeginExchange>(life.waits(at(19ms), {2, 3})).empty());
    const auto next = all<BeginExchange>(life.waits(at(20ms), {2, 3}));
    REQUIRE(next.size() == 1);
    REQUIRE(next[0].partner.id == PeerId{3});  // p2 is avoided for longer
    REQUIRE(life.peer.view().exchanges.rejected == (outcome == Outcome::rejected));
    REQUIRE(life.peer.view().exchanges.aborted == (outcome == Outcome::aborted));
  }
}

TEST_CASE("a partner that poisons an exchange three times, on either side, is rejected for a while") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 1}));
  life.happens(ExchangeEnded{begun.at(0).exchange, Outcome::poisoned});
  for (std::uint64_t k = 1; k <= 2; ++k) {
    REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, k}))[0].accept);
    life.happens(AnswerEnded{PeerId{2}, k, Outcome::poisoned});
  }
  REQUIRE(noticed(life.out, Notice::What::quarantined) == std::vector{PeerId{2}});
  const auto refused = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 3}));
  REQUIRE_FALSE(refused[0].accept);
  REQUIRE(refused[0].reason == wire::RefusalReason::quarantined);
  REQUIRE(all<BeginExchange>(life.waits(at(30s), {2})).empty());
}

TEST_CASE("a silent partner is probed, and the exchange is aborted when the partner is suspect") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2, 3, 4, 5, 6, 7, 8, 9});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 1}));
  const std::uint64_t partner = begun.at(0).partner.id.value;
  std::vector<std::uint64_t> alive;
  for (std::uint64_t k = 2; k <= 9; ++k) {
    if (k != partner) alive.push_back(k);
  }
  const auto passed = life.waits(at(3s), alive);
  REQUIRE(noticed(passed, Notice::What::suspected) == std::vector{PeerId{partner}});
  REQUIRE(all<AbortExchange>(passed).at(0).exchange == begun[0].exchange);
}

TEST_CASE("a timeout doubles the limit of the next exchange") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{1, 1})).size() == 1);
  REQUIRE(all<AbortExchange>(life.waits(at(10s), {2})).size() == 1);
  life.waits(at(11s), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{2, 2})).size() == 1);
  REQUIRE(all<AbortExchange>(life.waits(at(30'999ms), {2})).empty());
  REQUIRE(all<AbortExchange>(life.waits(at(31s), {2})).size() == 1);
}

TEST_CASE("an exchange that does not end in time is aborted, and its late end is ignored") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 1}));
  REQUIRE(begun.size() == 1);
  REQUIRE(all<AbortExchange>(life.waits(at(9999ms), {2})).empty());
  const auto aborts = all<AbortExchange>(life.waits(at(10s), {2}));
  REQUIRE(aborts.size() == 1);
  REQUIRE(aborts[0].exchange == begun[0].exchange);
  REQUIRE(life.peer.view().exchanges.aborted == 1);
  life.waits(at(11s), {2});
  const auto next = all<BeginExchange>(life.happens(Stepped{2, 2}));
  REQUIRE(next.size() == 1);
  // The aborted exchange ends late, while the new one is in flight.
  life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed});
  REQUIRE(life.peer.view().exchanges.completed == 0);
  REQUIRE(all<BeginExchange>(life.happens(Stepped{9, 9})).empty());
}

TEST_CASE("a peer with the pace always does not spin without partners") {
  Life life;
  life.trains(rules_of({Pace::Kind::always, 0, {}}));
  int wakes = 0;
  while (life.now < at(1s)) {
    life.waits(life.peer.next_deadline());
    ++wakes;
  }
  REQUIRE(wakes <= 100);
}

TEST_CASE("the rule none begins no exchange and accepts none") {
  Life life;
  life.trains(rules_of({Pace::Kind::always, 0, {}}, {}, "complete", Rule::none), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{100, 100})).empty());
  REQUIRE_FALSE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1}))[0].accept);
}

TEST_CASE("offers are accepted up to a limit; further offers are rejected as busy") {
  PeerOptions options;
  options.answers_max = 3;
  Life life(options);
  life.trains(rules_of(), {11, 12, 13, 14});
  for (std::uint64_t k = 1; k <= 3; ++k) {
    const auto answers = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{10 + k}, k}));
    REQUIRE(answers.size() == 1);
    REQUIRE(answers[0].from == PeerId{10 + k});
    REQUIRE(answers[0].exchange == k);
    REQUIRE(answers[0].accept);
  }
  const auto fourth = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{14}, 4}));
  REQUIRE_FALSE(fourth[0].accept);
  REQUIRE(fourth[0].reason == wire::RefusalReason::busy);
  life.happens(AnswerEnded{PeerId{12}, 2});
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{14}, 5}))[0].accept);
  REQUIRE(life.peer.view().exchanges.answered == 1);
  life.happens(AnswerEnded{PeerId{11}, 1, Outcome::aborted});
  REQUIRE(life.peer.view().exchanges.answered == 1);  // aborted answers do not count
}

TEST_CASE("the offer of a peer that is not a member is rejected until it has introduced itself") {
  Life life;
  life.trains(rules_of(), {2});
  life.hears(2, wire::Gossip{{member(3)}, false});  // hearsay is not an introduction
  const auto refused = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{3}, 1}));
  REQUIRE(refused.size() == 1);
  REQUIRE_FALSE(refused[0].accept);
  REQUIRE(refused[0].reason == wire::RefusalReason::not_ready);
  life.meets(member(3));
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{3}, 2})).at(0).accept);
}

TEST_CASE("exchanges of a later incarnation have other numbers than those of an earlier one") {
  std::set<std::uint64_t> numbers;
  for (const std::uint32_t incarnation : {0U, 1U, 64U, UINT32_MAX}) {
    PeerOptions options;
    options.incarnation = incarnation;
    Life life(options);
    life.trains(rules_of({Pace::Kind::always, 0, {}}), {2});
    auto begun = all<BeginExchange>(life.out);
    for (int k = 0; k < 5; ++k) {
      REQUIRE(begun.size() == 1);
      REQUIRE(begun[0].exchange >> 32 == incarnation);
      REQUIRE(numbers.insert(begun[0].exchange).second);
      begun = all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed}));
    }
  }
}

TEST_CASE("a peer answers offers while its own exchange is in flight") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{1, 1})).size() == 1);
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1}))[0].accept);
}

TEST_CASE("the next deadline is always later than now, whatever happens") {
  Random random(11);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    PeerOptions options = seed % 2 == 0 ? PeerOptions{} : joining({2});
    options.seed = seed;
    options.manifest = manifest();
    Life life(options);
    life.happens(Start{});
    bool prepared = false;
    std::uint64_t steps = 0, offers = 0;
    for (int k = 0; k < 300 && !life.peer.view().over; ++k) {
      life.now = life.now + Duration{static_cast<std::int64_t>(random.below(50'000'000))};
      switch (random.below(9)) {
        case 0:
          life.meets(member(2 + random.below(20)));
          break;
        case 1:
          life.meets(said_to_be(member(2 + random.below(20)), static_cast<wire::Liveness>(random.below(4)),
                                static_cast<std::uint32_t>(random.below(3))));
          break;
        case 2:
          life.happens(Unreachable{address_of(2 + random.below(20)), false, "gone"});
          break;
        case 3:
          if (!prepared) life.hears(2, wire::Welcome{manifest(), 1s, {member(2)}});
          if (!prepared)
            life.happens(Prepared{rules_of({static_cast<Pace::Kind>(seed % 3), 3, 7ms}, {{}, {}, 8s})});
          prepared = true;
          break;
        case 4:
          if (prepared) life.happens(StateArrived{});
          break;
        case 5:
          steps += random.below(5);
          life.happens(Stepped{steps, steps * 10});
          break;
        case 6:
          life.happens(ExchangeEnded{1 + random.below(10), static_cast<Outcome>(random.below(3))});
          break;
        case 7:
          if (life.phase() != wire::Phase::joining) life.happens(ExchangeOffered{PeerId{3}, ++offers});
          break;
        default:
          life.now = std::max(life.now, std::min(life.peer.next_deadline(), life.now + 1s));
          life.happens(Tick{});
      }
      if (!life.peer.view().over) life.happens(Tick{});  // spurious wake-ups are harmless
      REQUIRE(life.peer.next_deadline() > life.now);
    }
  }
}

TEST_CASE("an observer is no partner: nobody begins an exchange with it, accepts one, or copies from it") {
  PeerOptions options;
  options.membership.observers = {PeerId{2}};
  Life life(options);
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2, 3});
  for (std::uint64_t step = 1; step <= 50; ++step) {
    for (const auto& begun : all<BeginExchange>(life.happens(Stepped{step, 32 * step}))) {
      REQUIRE(begun.partner.id == PeerId{3});
      life.happens(ExchangeEnded{begun.exchange, Outcome::completed});
    }
  }
  REQUIRE(life.peer.view().exchanges.completed > 0);
  const auto answers = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1, 0}));
  REQUIRE(answers.size() == 1);
  REQUIRE_FALSE(answers[0].accept);
  REQUIRE(answers[0].reason == wire::RefusalReason::not_allowed);

  PeerOptions joins = joining({2});
  joins.membership.observers = {PeerId{2}};
  Life joiner(joins);
  joiner.happens(Start{});
  joiner.hears(2, wire::Welcome{manifest(), 1s, {member(2)}, 0});
  REQUIRE(all<FetchState>(joiner.happens(Prepared{rules_of()})).empty());
}

}  // namespace starling::gossip
