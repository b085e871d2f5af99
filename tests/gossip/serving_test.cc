// Rules with parameter servers, from the side of one peer.

#include "gossip/meeting/roster.h"
#include "gossip/meeting/rounds.h"
#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

using wire::Phase;

namespace {

// Member k, under the name of server `number`.
wire::Member server(std::uint64_t k, std::uint32_t number, Phase phase = Phase::training) {
  wire::Member m = member(k, phase);
  m.name = "s" + std::to_string(number);
  return m;
}

RunRules served(Rule rule, Servers servers, End end = {}) {
  RunRules rules = rules_of({Pace::Kind::steps, 1, {}}, end, "complete", rule);
  rules.servers = servers;
  return rules;
}

// Peer 1 with the given name.
Life named(const std::string& name) {
  PeerOptions options;
  options.name = name;
  return Life(std::move(options));
}

// A worker that trains, with `shards` servers 10, 11, ...
Life worker(Rule rule, std::uint32_t shards) {
  Life life;
  life.happens(Start{});
  for (std::uint32_t k = 0; k < shards; ++k) life.meets(server(10 + k, k));
  life.happens(Prepared{served(rule, {.shards = shards})});
  return life;
}

}  // namespace

TEST_CASE("a member's name determines its role") {
  const Servers servers{.shards = 2, .racks = 3};
  using Kind = Role::Kind;
  CHECK(role_of("s0", servers) == Role{Kind::shard, 0});
  CHECK(role_of("s1", servers) == Role{Kind::shard, 1});
  CHECK(role_of("s2", servers) == Role{Kind::rack, 0});
  CHECK(role_of("s4", servers) == Role{Kind::rack, 2});
  for (const char* name : {"s5", "p0", "s", "s01", "s-1", "s0x", "", "s99999999999"})
    CHECK(role_of(name, servers) == Role{});
}

TEST_CASE("a worker begins to train when every part has a server") {
  Life life;
  life.happens(Start{});
  life.meets(server(10, 0));
  const auto ready = life.happens(Prepared{served(Rule::parameter_server, {.shards = 2})});
  CHECK(all<StartTraining>(ready).empty());
  REQUIRE(all<Notice>(ready).size() == 1);
  CHECK(all<Notice>(ready)[0].text == "the parameter server s1 is not there yet");
  CHECK(all<StartTraining>(life.meets(server(11, 1, Phase::joining))).empty());
  const auto served_now = life.meets(server(11, 1));
  REQUIRE(all<StartTraining>(served_now).size() == 1);
  CHECK(all<StartTraining>(served_now)[0].steps);
}

TEST_CASE("a worker that waits for servers has no deadline from its pace") {
  for (const Pace pace : {Pace{Pace::Kind::time, 0, 10ms}, Pace{Pace::Kind::always, 0, {}}}) {
    RunRules rules = served(Rule::parameter_server, {});
    rules.pace = pace;
    Life life;
    life.happens(Start{});
    life.happens(Prepared{rules});
    std::size_t woken = 0;
    while (life.peer.next_deadline() <= at(2s)) {
      life.now = life.peer.next_deadline();
      life.happens(Tick{});
      REQUIRE(++woken < 1000);
    }
  }
}

TEST_CASE("a push is one exchange with every server, each of the server's part") {
  Life life = worker(Rule::parameter_server, 3);
  const auto push = all<BeginExchange>(life.happens(Stepped{1, 32}));
  REQUIRE(push.size() == 3);
  for (std::uint32_t k = 0; k < 3; ++k) {
    CHECK(push[k].partner.id == PeerId{10 + k});
    CHECK(push[k].terms.part == Part{k, 3});
  }
  CHECK(all<BeginExchange>(life.happens(Stepped{2, 64})).empty());
  // A server that has answered gets the next push, without waiting for the others.
  const auto next = all<BeginExchange>(life.happens(ExchangeEnded{push[1].exchange, Outcome::completed}));
  REQUIRE(next.size() == 1);
  CHECK(next[0].partner.id == PeerId{11});
  CHECK(all<BeginExchange>(life.happens(ExchangeEnded{push[0].exchange, Outcome::completed})).empty());
  const auto third = all<BeginExchange>(life.happens(Stepped{3, 96}));
  REQUIRE(third.size() == 1);
  CHECK(third[0].partner.id == PeerId{10});
  CHECK(all<PauseTraining>(life.out).empty());
}

TEST_CASE("the first member with the name of a server keeps the role while it lives") {
  Life life = worker(Rule::parameter_server, 1);  // member 10 is s0
  const auto told = life.meets(server(5, 0));     // of a lower id
  REQUIRE(noticed(told, Notice::What::contested) == std::vector{PeerId{5}});
  CHECK(noticed(life.meets(member(20)), Notice::What::contested).empty());  // once
  const auto push = all<BeginExchange>(life.happens(Stepped{1, 32}));
  REQUIRE(push.size() == 1);
  CHECK(push[0].partner.id == PeerId{10});
  // Also while the server cannot be met.
  life.happens(ExchangeEnded{push[0].exchange, Outcome::aborted});
  life.happens(Stepped{2, 64});
  const auto again = all<BeginExchange>(life.waits(life.now + 3s, {5, 10, 20}));
  REQUIRE(again.size() >= 1);
  for (const BeginExchange& it : again) CHECK(it.partner.id == PeerId{10});
  // When it has left, the other one follows.
  life.hears(10, wire::Leave{said_to_be(server(10, 0), wire::Liveness::left)});
  life.waits(life.now + 1s, {5, 20});
  const auto next = all<BeginExchange>(life.happens(Stepped{3, 96}));
  REQUIRE(next.size() == 1);
  CHECK(next[0].partner.id == PeerId{5});
}

TEST_CASE("a server answers with its part and divides each push by the number of workers") {
  Life life = named("s1");
  life.happens(Start{});
  for (const std::uint64_t k : {20, 21, 22, 23}) life.meets(member(k));
  const auto ready = life.happens(Prepared{served(Rule::parameter_server, {.shards = 2})});
  REQUIRE(all<StartTraining>(ready).size() == 1);
  CHECK_FALSE(all<StartTraining>(ready)[0].steps);
  const auto answer = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{21}, 5, 1}));
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].accept);
  CHECK(answer[0].terms.part == Part{1, 2});
  CHECK(answer[0].terms.weight == 0.25F);
  // It rejects peers that are not members, and begins no exchange itself.
  CHECK_FALSE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{77}, 1, 1}))[0].accept);
  life.waits(at(3s), {20, 21, 22, 23});
  CHECK(all<BeginExchange>(life.out).empty());
}

TEST_CASE("a worker rejects offers under a rule with servers") {
  Life life = worker(Rule::parameter_server, 1);
  life.meets(member(20));
  const auto answer = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{20}, 1, 1}));
  REQUIRE(answer.size() == 1);
  CHECK_FALSE(answer[0].accept);
}

TEST_CASE("a rack's server pushes after one push per worker of its rack") {
  Life life = named("s2");  // the second of the racks s1 and s2
  life.happens(Start{});
  life.meets(server(10, 0));
  life.meets(server(11, 1));
  for (const std::uint64_t k : {20, 21, 22, 23}) life.meets(member(k));
  life.happens(Prepared{served(Rule::parameter_server, {.shards = 1, .racks = 2})});
  for (const std::uint64_t from : {22, 23}) {
    REQUIRE(all<BeginExchange>(life.out).empty());
    const auto answer = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{from}, 7, 1}));
    REQUIRE(answer[0].accept);
    CHECK(answer[0].terms.weight == 0.5F);  // two workers push to it
    CHECK(answer[0].terms.part == Part{});
    life.happens(AnswerEnded{PeerId{from}, 7});
  }
  const auto push = all<BeginExchange>(life.out);
  REQUIRE(push.size() == 1);
  CHECK(push[0].partner.id == PeerId{10});
}

TEST_CASE("a rack's worker pushes the whole model to its rack's server, or to another rack's") {
  for (const bool gone : {false, true}) {
    Life life = named("p9");
    life.happens(Start{});
    for (std::uint32_t k = 0; k < 3; ++k) life.meets(server(10 + k, k));
    life.meets(member(8));  // p8 belongs to the first rack, p9 to the second
    life.happens(Prepared{served(Rule::parameter_server, {.shards = 1, .racks = 2})});
    if (gone) life.hears(12, wire::Leave{said_to_be(server(12, 2), wire::Liveness::left)});
    const auto push = all<BeginExchange>(life.happens(Stepped{1, 1}));
    REQUIRE(push.size() == 1);
    INFO("gone " << gone);
    CHECK(push[0].partner.id.value == (gone ? 11U : 12U));
    CHECK(push[0].terms.part == Part{});
  }
}

TEST_CASE("under ssp, training pauses if a push is due before the last one is answered") {
  Life life = worker(Rule::ssp, 1);
  const auto first = all<BeginExchange>(life.happens(Stepped{1, 1}));
  REQUIRE(first.size() == 1);
  CHECK(first[0].terms.round == 1);
  CHECK(all<PauseTraining>(life.out).empty());
  CHECK(all<PauseTraining>(life.happens(Stepped{2, 2})).size() == 1);
  const auto answered = life.happens(ExchangeEnded{first[0].exchange, Outcome::completed});
  CHECK(all<ResumeTraining>(answered).size() == 1);
  REQUIRE(all<BeginExchange>(answered).size() == 1);
  CHECK(all<BeginExchange>(answered)[0].terms.round == 2);
}

TEST_CASE("a failed push keeps its number, and a rejected push takes the number of the rejection") {
  Life life = worker(Rule::ssp, 1);
  const auto first = all<BeginExchange>(life.happens(Stepped{1, 1}));
  life.happens(ExchangeEnded{first[0].exchange, Outcome::aborted});
  life.happens(Stepped{2, 2});
  const auto again = all<BeginExchange>(life.waits(life.now + 1s, {10}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].terms.round == 1);
  life.happens(ExchangeEnded{again[0].exchange, Outcome::rejected, 40});
  const auto ahead = all<BeginExchange>(life.happens(Stepped{3, 3}));
  REQUIRE(ahead.size() == 1);
  CHECK(ahead[0].terms.round == 40);
}

TEST_CASE("clocks hold workers too far ahead, reject those behind, and ignore those that do not train") {
  Clocks clocks(2);
  const PeerId a{1}, b{2}, c{3};
  clocks.meet(at(0s), a);
  clocks.meet(at(0s), b);
  CHECK(clocks.judge({a, 1, 1}) == Verdict::accept);
  CHECK(clocks.judge({a, 2, 2}) == Verdict::hold);  // b has made no push: a's next one would be 3 ahead
  clocks.hold({a, 2, 2});
  CHECK_FALSE(clocks.take_ripe());
  CHECK(clocks.judge({b, 1, 1}) == Verdict::accept);
  const auto ripe = clocks.take_ripe();
  REQUIRE(ripe);
  CHECK(ripe->from == a);
  clocks.judge({b, 2, 2});
  clocks.meet(at(0s), c);  // starts at the slowest worker's clock
  CHECK(clocks.of(c) == 2);
  CHECK(clocks.judge({c, 1, 1}) == Verdict::reject);
  CHECK(clocks.judge({a, 3, 3}) == Verdict::accept);
  CHECK(clocks.judge({a, 4, 4}) == Verdict::hold);
  clocks.keep([&](PeerId worker) { return worker == a; });
  CHECK(clocks.judge({a, 4, 4}) == Verdict::accept);
  CHECK(clocks.judge({b, 5, 9}) == Verdict::accept);  // not counted, so always accepted
}

TEST_CASE("workers that have all lost their replicas copy from a server") {
  Life life = worker(Rule::parameter_server, 1);
  life.meets(member(3));  // another worker
  life.happens(ReplicaDiverged{});
  life.waits(life.now + 1s, {3, 10});
  const auto copies = [&life] { return all<FetchState>(life.out); };
  REQUIRE(copies().size() == 1);
  REQUIRE(copies()[0].donor.id == PeerId{3});
  life.happens(StateLost{"it has none to give"});
  life.waits(life.now + 2s, {3, 10});
  REQUIRE(copies().size() == 2);
  REQUIRE(copies()[1].donor.id == PeerId{10});
}

}  // namespace starling::gossip
