// Rules that count rounds, in lock-step with a barrier, with scripted events.

#include "tests/catch.h"
#include "tests/gossip/life.h"
#include "topologies/spectra/mixing.h"

namespace starling::gossip {

namespace {

RunRules in_step(const std::string& topology = "complete", std::uint64_t every = 1) {
  return rules_of({Pace::Kind::steps, every, {}}, {}, topology, Rule::d_psgd);
}
std::vector<AnswerOffer> answers(const std::vector<Action>& actions) { return all<AnswerOffer>(actions); }

// Peer 9 after a first round with peer 2, which has the lower id and begins their exchanges.
Life ninth_in_step_with_2(const std::vector<std::uint64_t>& others = {2}) {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), others);
  life.happens(ExchangeOffered{PeerId{2}, 1, 1});
  life.happens(Stepped{1, 32});
  life.happens(AnswerEnded{PeerId{2}, 1});
  return life;
}

// Peer 1, whose id is the lowest, at the beginning of its first round.
struct Barrier {
  explicit Barrier(const std::vector<std::uint64_t>& others, RunRules rules = in_step()) {
    life.trains(rules, others);
    opened = life.happens(Stepped{1, 32});
  }
  Life life;
  std::vector<Action> opened;
};

}  // namespace

TEST_CASE("in lock-step training pauses at each round until the exchanges with all neighbors are over") {
  Barrier barrier({2, 3});
  REQUIRE(all<PauseTraining>(barrier.opened).size() == 1);
  REQUIRE_FALSE(all<PauseTraining>(barrier.opened)[0].discard);
  REQUIRE(all<BeginRound>(barrier.opened).at(0).round == 1);
  const auto begun = all<BeginExchange>(barrier.opened);
  REQUIRE(begun.size() == 2);
  REQUIRE(begun[0].partner.id != begun[1].partner.id);
  for (const BeginExchange& exchange : begun) {
    REQUIRE(exchange.terms.round == 1);
    REQUIRE(exchange.terms.weight == 1.0F / 3);  // three peers, each with two neighbors
  }
  const auto then = barrier.life.happens(ExchangeEnded{begun[1].exchange, Outcome::completed});
  REQUIRE(all<BeginExchange>(then).empty());
  REQUIRE(all<ResumeTraining>(then).empty());
  const auto end = barrier.life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed});
  REQUIRE(all<ResumeTraining>(end).size() == 1);
  REQUIRE_FALSE(all<ResumeTraining>(end)[0].renewed);
  REQUIRE(all<BeginRound>(end).empty());
  REQUIRE(all<BeginRound>(barrier.life.happens(Stepped{2, 64})).at(0).round == 2);
}

TEST_CASE("each exchange of a round is aborted only for its own partner") {
  Barrier barrier({2, 3});
  const auto begun = all<BeginExchange>(barrier.opened);
  REQUIRE(begun.size() == 2);
  // The other partner does not answer probes.
  const auto lost = barrier.life.waits(at(20s), {begun[0].partner.id.value});
  REQUIRE(all<AbortExchange>(lost).size() == 1);
  REQUIRE(all<AbortExchange>(lost)[0].exchange == begun[1].exchange);
  REQUIRE(all<ResumeTraining>(lost).empty());
  const auto end = barrier.life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed});
  REQUIRE(all<ResumeTraining>(end).size() == 1);
}

TEST_CASE("the pause comes before the round, and the round before its exchanges") {
  Barrier barrier({2});
  std::vector<std::size_t> order;
  for (const Action& action : barrier.opened) {
    if (std::holds_alternative<PauseTraining>(action) || std::holds_alternative<BeginRound>(action) ||
        std::holds_alternative<BeginExchange>(action)) {
      order.push_back(action.index());
    }
  }
  REQUIRE(order.size() == 3);
  REQUIRE(order[0] == Action(PauseTraining{}).index());
  REQUIRE(order[1] == Action(BeginRound{}).index());
}

TEST_CASE("the neighbor with the lower id begins the exchange, and the other waits for the offer") {
  Barrier lower({2});
  REQUIRE(all<BeginExchange>(lower.opened).size() == 1);

  Life ninth = ninth_in_step_with_2();
  const auto opened = ninth.happens(Stepped{2, 64});
  REQUIRE(all<BeginExchange>(opened).empty());
  REQUIRE(all<ResumeTraining>(opened).empty());
  const auto accepted = answers(ninth.happens(ExchangeOffered{PeerId{2}, 5, 2}));
  REQUIRE(accepted.at(0).accept);
  REQUIRE(accepted[0].terms.round == 2);
  REQUIRE(accepted[0].terms.weight == 0.5F);
  REQUIRE(all<ResumeTraining>(ninth.happens(AnswerEnded{PeerId{2}, 5})).size() == 1);
}

TEST_CASE("an early offer is held until its round begins") {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), {2});
  REQUIRE(answers(life.happens(ExchangeOffered{PeerId{2}, 5, 1})).empty());
  const auto begun = answers(life.happens(Stepped{1, 32}));
  REQUIRE(begun.size() == 1);
  REQUIRE(begun[0].exchange == 5);
  REQUIRE(begun[0].accept);
}

TEST_CASE("a held offer that is withdrawn is not answered") {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), {2});
  life.happens(ExchangeOffered{PeerId{2}, 5, 1});
  life.happens(AnswerEnded{PeerId{2}, 5, Outcome::aborted});
  REQUIRE(answers(life.happens(Stepped{1, 32})).empty());
}

TEST_CASE("a peer that is behind jumps to the round of a rejection or of a held offer") {
  Barrier barrier({2});
  const std::uint64_t exchange = all<BeginExchange>(barrier.opened).at(0).exchange;
  const auto refused = barrier.life.happens(ExchangeEnded{exchange, Outcome::rejected, 100});
  REQUIRE(all<ResumeTraining>(refused).size() == 1);  // no other neighbor to wait for
  barrier.life.waits(at(1s), {2});
  const auto next = barrier.life.happens(Stepped{2, 64});
  REQUIRE(all<BeginRound>(next).at(0).round == 100);
  REQUIRE(all<BeginExchange>(next).at(0).terms.round == 100);

  Life ninth(PeerOptions{}, 9);
  ninth.trains(in_step(), {2});
  ninth.happens(ExchangeOffered{PeerId{2}, 5, 40});
  const auto jumped = ninth.happens(Stepped{1, 32});
  REQUIRE(all<BeginRound>(jumped).at(0).round == 40);
  REQUIRE(answers(jumped).at(0).accept);
}

TEST_CASE("an offer of an earlier round is rejected with the expected round") {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), {2, 3});
  life.happens(ExchangeOffered{PeerId{2}, 5, 40});
  life.happens(Stepped{1, 32});
  const auto refused = answers(life.happens(ExchangeOffered{PeerId{3}, 1, 39}));
  REQUIRE_FALSE(refused.at(0).accept);
  REQUIRE(refused[0].reason == wire::RefusalReason::out_of_step);
  REQUIRE(refused[0].terms.round == 40);
}

TEST_CASE("a peer does not wait for a neighbor that fails, leaves or finishes") {
  for (const std::uint64_t self : {1, 9}) {
    for (const int how : {0, 1, 2}) {
      if (self == 1 && how == 2) continue;  // the next test
      CAPTURE(self, how);
      Life life = self == 9 ? ninth_in_step_with_2() : Life(PeerOptions{}, self);
      if (self == 1) life.trains(in_step(), {2});
      REQUIRE(all<ResumeTraining>(life.happens(Stepped{2, 64})).empty());
      std::vector<Action> end;
      if (how == 0) end = life.waits(at(20s));  // it does not answer probes
      if (how == 1) end = life.hears(2, wire::Leave{said_to_be(member(2), wire::Liveness::left)});
      if (how == 2) end = life.meets(member(2, wire::Phase::finished));
      REQUIRE(all<ResumeTraining>(end).size() == 1);
      // The aborted exchange is the peer's own, or one for which it asked.
      REQUIRE(all<AbortExchange>(end).size() == (self == 1 || how == 0 ? 1 : 0));
    }
  }
}

// Its replies travel on another connection than the news. If the exchange were aborted, only the neighbor
// would have mixed.
TEST_CASE("an exchange under way with a neighbor that has finished is completed or rejected by it") {
  for (const Outcome outcome : {Outcome::completed, Outcome::rejected}) {
    Life life;
    life.trains(in_step(), {2});
    const auto begun = all<BeginExchange>(life.happens(Stepped{2, 64}));
    REQUIRE(begun.size() == 1);
    const auto news = life.meets(member(2, wire::Phase::finished));
    CHECK(all<AbortExchange>(news).empty());
    CHECK(all<ResumeTraining>(news).empty());
    CHECK(all<ResumeTraining>(life.happens(ExchangeEnded{begun[0].exchange, outcome})).size() == 1);
  }
}

TEST_CASE("a peer waits a limited time for a slow live neighbor") {
  for (const std::uint64_t self : {1, 9}) {
    Life life = self == 9 ? ninth_in_step_with_2() : Life(PeerOptions{}, self);
    if (self == 1) life.trains(in_step(), {2});
    life.happens(Stepped{2, 64});
    REQUIRE(all<ResumeTraining>(life.waits(at(100s), {2})).empty());
    REQUIRE(all<ResumeTraining>(life.waits(at(130s), {2})).size() == 1);  // the limit
  }
}

TEST_CASE("a peer waits a limited time for a neighbor that comes after the round's limit") {
  for (const bool sleeps : {false, true}) {
    Barrier barrier({2});
    Life& life = barrier.life;
    const std::uint64_t with_2 = all<BeginExchange>(barrier.opened).at(0).exchange;
    for (std::uint64_t cells = 1; life.now < at(125s); ++cells) {  // slow, and not overdue
      life.happens(ExchangeAdvanced{with_2, cells});
      life.waits(life.now + 5s, {2});
    }
    const auto begun = all<BeginExchange>(life.meets(member(3)));
    REQUIRE(begun.size() == 1);
    REQUIRE(begun[0].partner.id == PeerId{3});
    life.happens(ExchangeEnded{with_2, Outcome::completed});
    if (sleeps) {
      life.now = life.now + 1min;
      REQUIRE(all<AbortExchange>(life.happens(Tick{})).empty());
    }
    const Duration slept = sleeps ? 1min : 0s;  // which is no wait
    REQUIRE(all<ResumeTraining>(life.waits(at(235s) + slept, {2, 3})).empty());
    REQUIRE(all<ResumeTraining>(life.waits(at(245s) + slept, {2, 3})).size() == 1);
  }
}

TEST_CASE("a peer does not wait for a neighbor in a later round, and holds its offer") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto passed = life.happens(ExchangeOffered{PeerId{2}, 5, 3});
  REQUIRE(answers(passed).empty());
  REQUIRE(all<ResumeTraining>(passed).size() == 1);
  life.waits(at(100ms), {2});
  const auto next = life.happens(Stepped{3, 96});
  REQUIRE(all<BeginRound>(next).at(0).round == 3);
  REQUIRE(answers(next).at(0).accept);
}

TEST_CASE("a neighbor that keeps this peer waiting is asked; if it rejects, the wait ends") {
  for (const std::uint64_t round : {2, 5}) {  // the neighbor has no such link in this round, or is past it
    Life life = ninth_in_step_with_2();
    REQUIRE(all<BeginExchange>(life.happens(Stepped{2, 64})).empty());
    const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
    REQUIRE(asked.size() == 1);
    REQUIRE(asked[0].partner.id == PeerId{2});
    REQUIRE(asked[0].terms.round == 2);
    REQUIRE(asked[0].terms.weight == 0.5F);
    REQUIRE(all<BeginExchange>(life.waits(life.now + 5s, {2})).empty());  // once
    const auto refused = life.happens(ExchangeEnded{asked[0].exchange, Outcome::rejected, round});
    REQUIRE(all<ResumeTraining>(refused).size() == 1);
  }
}

TEST_CASE("a peer waits for an asked neighbor that is ahead only in that neighbor's round") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  life.happens(ExchangeEnded{asked.at(0).exchange, Outcome::rejected, 4});
  for (std::uint64_t steps = 3; life.peer.view().round < 4; ++steps) {
    life.waits(life.now + 100ms, {2});
    const auto opened = life.happens(Stepped{steps, 32 * steps});
    REQUIRE(all<ResumeTraining>(opened).size() == (life.peer.view().round < 4 ? 1 : 0));
  }
  REQUIRE(all<BeginExchange>(life.waits(life.now + 1500ms, {2})).at(0).terms.round == 4);
}

TEST_CASE("a requested exchange that advances is not aborted for a late offer") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  life.happens(ExchangeAdvanced{asked.at(0).exchange, 1});
  const auto late = life.happens(ExchangeOffered{PeerId{2}, 5, 2});
  REQUIRE(all<AbortExchange>(late).empty());
  REQUIRE(answers(late).empty());
  const auto over = life.happens(ExchangeEnded{asked[0].exchange, Outcome::completed});
  REQUIRE_FALSE(answers(over).at(0).accept);
  REQUIRE(all<ResumeTraining>(over).size() == 1);
}

TEST_CASE("a requested exchange counts as the round's exchange") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  REQUIRE(asked.size() == 1);
  const auto over = life.happens(ExchangeEnded{asked[0].exchange, Outcome::completed});
  REQUIRE(all<ResumeTraining>(over).size() == 1);
  life.waits(life.now + 100ms, {2});
  REQUIRE(all<ResumeTraining>(life.happens(Stepped{3, 96})).empty());  // still in step
}

TEST_CASE("a neighbor's own offer replaces the requested exchange, and a broken connection only delays it") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  REQUIRE(all<ResumeTraining>(life.happens(ExchangeEnded{asked.at(0).exchange, Outcome::aborted})).empty());
  const auto again = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  REQUIRE(again.size() == 1);
  const auto offered = life.happens(ExchangeOffered{PeerId{2}, 5, 2});
  REQUIRE(all<AbortExchange>(offered).at(0).exchange == again[0].exchange);
  REQUIRE(answers(offered).at(0).accept);
  REQUIRE(all<ResumeTraining>(offered).empty());
  REQUIRE(all<ResumeTraining>(life.happens(AnswerEnded{PeerId{2}, 5})).size() == 1);
  const ExchangeCounts& counts = life.peer.view().exchanges;
  REQUIRE(counts.begun == counts.completed + counts.aborted + counts.rejected);
}

TEST_CASE("a request to a neighbor ends when the neighbor skips this peer") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  const auto asked = all<BeginExchange>(life.waits(life.now + 1500ms, {2}));
  const auto passed = life.happens(ExchangeOffered{PeerId{2}, 5, 3});
  REQUIRE(all<AbortExchange>(passed).at(0).exchange == asked.at(0).exchange);
  REQUIRE(all<ResumeTraining>(passed).size() == 1);
}

TEST_CASE("a peer that is asked before it reaches the round answers instead of beginning the exchange") {
  Life life;
  life.trains(in_step(), {2});
  REQUIRE(answers(life.happens(ExchangeOffered{PeerId{2}, 5, 1})).empty());
  const auto opened = life.happens(Stepped{1, 32});
  REQUIRE(all<BeginExchange>(opened).empty());
  REQUIRE(answers(opened).at(0).accept);
  REQUIRE(all<ResumeTraining>(opened).empty());
  REQUIRE(all<ResumeTraining>(life.happens(AnswerEnded{PeerId{2}, 5})).size() == 1);
}

TEST_CASE("if two offers cross, the lower id's is answered, and the other is held") {
  Barrier barrier({2});
  const std::uint64_t own = all<BeginExchange>(barrier.opened).at(0).exchange;
  const auto asked = barrier.life.happens(ExchangeOffered{PeerId{2}, 5, 1});
  REQUIRE(answers(asked).empty());
  REQUIRE(all<AbortExchange>(asked).empty());
  SECTION("the own exchange completes") {
    barrier.life.happens(AnswerEnded{PeerId{2}, 5, Outcome::aborted});  // withdrawn
    REQUIRE(all<ResumeTraining>(barrier.life.happens(ExchangeEnded{own, Outcome::completed})).size() == 1);
  }
  SECTION("the own offer is lost, and the other is answered after a while") {
    const auto moment = barrier.life.waits(barrier.life.now + 2500ms, {2});
    REQUIRE(all<AbortExchange>(moment).at(0).exchange == own);
    REQUIRE(answers(moment).at(0).accept);
    REQUIRE(answers(moment)[0].exchange == 5);
    REQUIRE(all<BeginExchange>(moment).empty());
    REQUIRE(all<ResumeTraining>(moment).empty());
    REQUIRE(all<ResumeTraining>(barrier.life.happens(AnswerEnded{PeerId{2}, 5})).size() == 1);
  }
  SECTION("the own exchange breaks, and neither is made") {
    const auto broken = barrier.life.happens(ExchangeEnded{own, Outcome::aborted});
    REQUIRE_FALSE(answers(broken).at(0).accept);
    REQUIRE(all<ResumeTraining>(broken).size() == 1);
  }
}

TEST_CASE("a neighbor's new offer ends the answer to its earlier one") {
  for (const std::uint64_t round : {2, 3}) {
    Life life = ninth_in_step_with_2();
    life.happens(Stepped{2, 64});
    REQUIRE(answers(life.happens(ExchangeOffered{PeerId{2}, 5, 2})).at(0).accept);
    const auto again = life.happens(ExchangeOffered{PeerId{2}, 6, round});
    REQUIRE(all<ResumeTraining>(again).size() == 1);
    // A second exchange in the same round would mix twice, so it is rejected. One of the next round is held.
    REQUIRE(answers(again).size() == (round == 2 ? 1 : 0));
    REQUIRE(life.happens(AnswerEnded{PeerId{2}, 5, Outcome::aborted}).empty());
  }
}

TEST_CASE("the late end of an earlier round's answer does not affect this round") {
  Life life = ninth_in_step_with_2();
  life.happens(Stepped{2, 64});
  life.happens(ExchangeOffered{PeerId{2}, 5, 2});
  life.happens(AnswerEnded{PeerId{2}, 4});
  REQUIRE(all<ResumeTraining>(life.happens(AnswerEnded{PeerId{2}, 5})).size() == 1);
}

TEST_CASE("an offer of the next round is held, and no round is skipped") {
  Life life = ninth_in_step_with_2({2, 3});
  life.happens(ExchangeOffered{PeerId{3}, 1, 1});  // too late for round 1, so rejected; in step from here
  life.happens(Stepped{2, 64});
  REQUIRE(answers(life.happens(ExchangeOffered{PeerId{2}, 5, 2})).at(0).accept);
  REQUIRE(all<ResumeTraining>(life.happens(AnswerEnded{PeerId{2}, 5})).empty());  // it waits for 3
  REQUIRE(answers(life.happens(ExchangeOffered{PeerId{2}, 6, 3})).empty());
  REQUIRE(answers(life.happens(ExchangeOffered{PeerId{3}, 2, 2})).at(0).accept);
  REQUIRE(all<ResumeTraining>(life.happens(AnswerEnded{PeerId{3}, 2})).size() == 1);
  const auto next = life.happens(Stepped{3, 96});
  REQUIRE(all<BeginRound>(next).at(0).round == 3);
  REQUIRE(answers(next).at(0).exchange == 6);
}

TEST_CASE("a rejection names the round that the peer will begin, not one that it skips") {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), {2, 3});
  life.happens(Stepped{1, 32});  // round 1, in which it waits for no neighbor
  life.happens(ExchangeOffered{PeerId{2}, 5, 40});
  const auto refused = answers(life.happens(ExchangeOffered{PeerId{3}, 1, 2}));
  REQUIRE_FALSE(refused.at(0).accept);
  REQUIRE(refused[0].terms.round == 40);
}

TEST_CASE("a peer does not wait for a former neighbor if the graph changes during the round") {
  Life life = ninth_in_step_with_2();
  life.meets(member(4));
  REQUIRE(all<ResumeTraining>(life.happens(Stepped{2, 64})).empty());
  // On a line, in the order of their names: 2, 4, 9.
  REQUIRE(all<ResumeTraining>(life.happens(RewireRequested{"line"})).size() == 1);
}

TEST_CASE("a peer does not wait for a neighbor that is out of step") {
  Life life(PeerOptions{}, 9);
  life.trains(in_step(), {2, 3});
  REQUIRE(all<ResumeTraining>(life.happens(Stepped{1, 32})).size() == 1);
}

TEST_CASE("a peer that settles in lock-step makes further rounds without steps, and then finishes") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}, {{}, 1, {}}, "complete", Rule::d_psgd), {2});
  auto begun = life.happens(Stepped{1, 32});
  REQUIRE(life.phase() == wire::Phase::settling);
  REQUIRE(all<StopTraining>(begun).size() == 1);
  std::size_t rounds = 0;
  while (life.phase() == wire::Phase::settling) {
    rounds += all<BeginRound>(begun).size();
    const auto exchanges = all<BeginExchange>(begun);
    REQUIRE(exchanges.size() == 1);
    REQUIRE(all<ResumeTraining>(begun).empty());
    begun = life.happens(ExchangeEnded{exchanges[0].exchange, Outcome::completed});
  }
  REQUIRE(rounds == 3);
}

TEST_CASE("a rule in lock-step refuses to follow a directed topology") {
  Life life;
  life.trains(in_step("ring"), {2, 3});
  const auto told = life.happens(RewireRequested{"directed-exponential"});
  REQUIRE(noticed(told, Notice::What::unwired).size() == 1);
  REQUIRE(life.peer.view().topology->name() == "ring");
}

TEST_CASE("an absurd round number in an offer is rejected") {
  Life ninth(PeerOptions{}, 9);
  ninth.trains(in_step(), {2});
  REQUIRE_FALSE(answers(ninth.happens(ExchangeOffered{PeerId{2}, 1, UINT64_MAX})).at(0).accept);
}

TEST_CASE("a partner that offers more often than the rule clipped allows is rejected as busy") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::clipped), {2});
  std::uint64_t exchange = 0;
  const auto accepted = [&] {
    std::size_t count = 0;
    for (int k = 0; k < 50; ++k) {
      const auto answer = answers(life.happens(ExchangeOffered{PeerId{2}, ++exchange})).at(0);
      if (answer.accept) life.happens(AnswerEnded{PeerId{2}, exchange});
      if (!answer.accept) REQUIRE(answer.reason == wire::RefusalReason::busy);
      count += answer.accept;
    }
    return count;
  };
  REQUIRE(accepted() == 4);  // the burst
  life.now = life.now + 40s;
  REQUIRE(accepted() == 2);  // this peer could have begun one of its own
}

TEST_CASE("the weight of a lock-step neighbor is its entry of the mixing matrix") {
  for (const std::string name : {"ring", "star", "line", "complete", "base:k=1", "tree", "small-world"}) {
    for (const std::uint32_t n : {2U, 5U, 8U}) {
      const auto topology = topologies::Topology::parse(name);
      REQUIRE(topology);
      const auto schedule = topology->among(n);
      for (std::uint64_t round = 0; round < schedule.period(); ++round) {
        const auto graph = topologies::Graph::of(schedule, round);
        const auto w =
            topologies::dense(*topologies::mixing_matrix(*graph, topologies::default_mixing(schedule)));
        for (std::uint32_t i = 0; i < n; ++i) {
          std::vector<double> row(n);
          double kept = 1;
          for (const auto& link : topologies::lock_step_links(schedule, i, round)) {
            row[link.peer] = link.weight;
            kept -= link.weight;
          }
          row[i] = kept;
          for (std::uint32_t j = 0; j < n; ++j) REQUIRE(std::abs(row[j] - w[i * n + j]) < 1e-12);
        }
      }
    }
  }
}

}  // namespace starling::gossip
