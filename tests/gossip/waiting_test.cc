// A member that lives and makes no exchange delays a peer that waits for it by a bounded sum.

#include "gossip/meeting/waiting.h"

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

constexpr PeerId kSilent{3};

// Peer `number` in lock-step with the members 2 and 3, after eight rounds of 100 ms in which both took part.
struct Rhythm {
  explicit Rhythm(std::uint64_t number) : life(PeerOptions{}, number) {
    life.trains(rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::d_psgd), {2, 3});
    while (round < 8) REQUIRE(plays(true) <= 100ms);
  }

  // A round in which 2 takes part, and 3 if it is not silent. Returns how long training paused.
  Duration plays(bool with_silent) {
    life.waits(life.now + 100ms, {2, 3});
    ++round;
    const Instant paused = life.now;
    auto opened = life.happens(Stepped{round, 32 * round});
    take_part(opened, with_silent);
    while (life.peer.view().round >= round && !resumed(opened)) {
      life.waits(life.peer.next_deadline(), {2, 3});
      opened = life.out;
      life.out.clear();
      passed_over += noticed(opened, Notice::What::passed_over).size();
    }
    return life.now - paused;
  }

  void take_part(std::vector<Action>& opened, bool with_silent) {
    for (const std::uint64_t k : {2, 3}) {
      if (k == kSilent.value && !with_silent) continue;
      std::vector<Action> over;
      const auto begun = all<BeginExchange>(opened);
      const auto own = std::ranges::find(begun, PeerId{k}, [](const auto& it) { return it.partner.id; });
      if (own != begun.end()) {
        over = life.happens(ExchangeEnded{own->exchange, Outcome::completed});
      } else {
        over = life.happens(ExchangeOffered{PeerId{k}, ++exchange, round});
        const auto more = life.happens(AnswerEnded{PeerId{k}, exchange});
        over.insert(over.end(), more.begin(), more.end());
      }
      opened.insert(opened.end(), over.begin(), over.end());
    }
    life.out.clear();
  }
  static bool resumed(const std::vector<Action>& actions) { return !all<ResumeTraining>(actions).empty(); }

  Life life;
  std::uint64_t round = 0, exchange = 1000;
  std::size_t passed_over = 0;
};

}  // namespace

TEST_CASE("the limit of a wait is ten medians of the latest rounds, and at least two seconds") {
  RoundWaits waiting(2min);
  Instant now = at(1s);
  for (int k = 0; k < 5; ++k, now = now + 1s) {
    CHECK(waiting.limit() == 2min);
    waiting.round_begins(now);
  }
  waiting.round_begins(now);
  CHECK(waiting.limit() == 10s);
  for (int k = 0; k < 7; ++k) waiting.round_begins(now = now + 1min);
  CHECK(waiting.limit() == 2min);  // all have become slow
  for (int k = 0; k < 15; ++k) waiting.round_begins(now = now + 10ms);
  CHECK(waiting.limit() == 2s);
}

TEST_CASE("the pauses in which a partner is not awaited double, and a few end with an exchange") {
  RoundWaits waiting(2min);
  Instant now = at(1s);
  const auto pause = [&] {
    const Duration length = waiting.pass_over(now, kSilent, 2s);
    CHECK_FALSE(waiting.awaits(now + length - 1ns, kSilent));
    CHECK(waiting.awaits(now + length, kSilent));
    now = now + length;
    return length;
  };
  for (const Duration length : {2s, 4s, 8s, 16s, 32s}) CHECK(pause() == length);
  now = now + 5min;
  waiting.worked(now, kSilent);
  for (int k = 0; k < 5; ++k, waiting.worked(now, kSilent)) CHECK(pause() == 2s);
  CHECK(pause() == 4s);  // more waits than are forgiven
  CHECK(waiting.awaits(now, PeerId{2}));
}

TEST_CASE("a partner that lets a peer wait after each exchange wastes at most a part of its time") {
  RoundWaits waiting(2min);
  Instant now = at(1s);
  Duration waited{0};
  while (now < at(1h)) {
    if (waiting.awaits(now, kSilent)) {
      now = now + 2s;
      waited += 2s;
      waiting.pass_over(now, kSilent, 2s);
    } else {
      now = now + 100ms;
    }
    waiting.worked(now, kSilent);
  }
  CHECK(waited < std::chrono::seconds(3600 / RoundWaits::kShare) + 30s);
}

TEST_CASE("in lock-step a silent neighbor delays a peer by a sum that grows with the logarithm of time") {
  for (const std::uint64_t number : {1, 9}) {  // it begins the exchanges, or waits for the offers
    Rhythm rhythm(number);
    const Instant since = rhythm.life.now;
    Duration delayed{0};
    std::size_t rounds = 0;
    for (; rhythm.life.now < since + 3min; ++rounds) delayed += rhythm.plays(false);
    INFO("peer " << number);
    CHECK(delayed <= 16s);  // waits of two seconds, with pauses of 2, 4, ... 64 s between them
    CHECK(rhythm.passed_over >= (number == 1 ? 5 : 1));  // whose offers it awaits must be in step first
    CHECK(rhythm.passed_over <= 8);
    CHECK(rounds > 1500);
  }
}

TEST_CASE("a neighbor that was passed over is awaited again after the pause") {
  Rhythm rhythm(1);
  CHECK(rhythm.plays(false) >= 2s);
  const Instant pause_ends = rhythm.life.now + 2s;
  CHECK(rhythm.plays(false) == 0s);
  while (rhythm.life.now + 100ms < pause_ends) rhythm.plays(false);
  rhythm.life.waits(rhythm.life.now + 100ms, {2, 3});
  ++rhythm.round;
  const auto opened = all<BeginExchange>(rhythm.life.happens(Stepped{rhythm.round, 32 * rhythm.round}));
  REQUIRE(opened.size() == 2);
  CHECK(opened[1].partner.id == kSilent);
}

TEST_CASE("an offer that is accepted and never followed by a chunk ends with the limit") {
  Rhythm rhythm(9);
  Life& life = rhythm.life;
  life.waits(life.now + 100ms, {2, 3});
  ++rhythm.round;
  life.happens(Stepped{rhythm.round, 32 * rhythm.round});
  life.happens(ExchangeOffered{PeerId{2}, 1, rhythm.round});
  life.happens(AnswerEnded{PeerId{2}, 1});
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{kSilent, 2, rhythm.round})).at(0).accept);
  CHECK(all<ResumeTraining>(life.waits(life.now + 1500ms, {2, 3})).empty());
  const auto end = life.waits(life.now + 1s, {2, 3});
  CHECK(all<ResumeTraining>(end).size() == 1);
  CHECK(noticed(end, Notice::What::passed_over) == std::vector{kSilent});
}

TEST_CASE("under ssp a worker that trains and does not push is passed over") {
  PeerOptions options;
  options.name = "s0";
  Life life(std::move(options));
  RunRules rules = rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::ssp);
  rules.servers.staleness = 1;
  life.trains(rules, {2, 3});
  const auto pushes = [&](std::uint64_t worker, std::uint64_t round) {
    const auto answers = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{worker}, round, round}));
    for (const AnswerOffer& answer : answers) {
      CHECK(answer.accept);
      life.happens(AnswerEnded{answer.from, answer.exchange});
    }
    return answers.size();
  };
  std::uint64_t round = 0;
  for (; round < 8; life.waits(life.now + 100ms, {2, 3})) {
    ++round;
    CHECK(pushes(2, round) == 0);
    CHECK(pushes(3, round) == 2);
  }
  CHECK(pushes(2, ++round) == 0);
  CHECK(all<AnswerOffer>(life.waits(life.now + 1500ms, {2, 3})).empty());
  const auto freed = life.waits(life.now + 1s, {2, 3});
  REQUIRE(all<AnswerOffer>(freed).size() == 1);
  CHECK(all<AnswerOffer>(freed)[0].accept);
  CHECK(noticed(freed, Notice::What::passed_over) == std::vector{kSilent});
  life.happens(AnswerEnded{PeerId{2}, round});
  for (; life.now < at(60s);
       life.waits(life.now + 100ms, {2, 3})) {  // repeating its last push is no sign of work
    life.happens(ExchangeOffered{kSilent, 7, 8});
    if (pushes(2, ++round) == 0) {
      const auto waited = life.waits(life.now + 2500ms, {2, 3});
      REQUIRE(all<AnswerOffer>(waited).size() >= 1);
      life.happens(AnswerEnded{PeerId{2}, round});
    }
  }
  CHECK(noticed(life.out, Notice::What::passed_over).size() <= 7);
}

}  // namespace starling::gossip
