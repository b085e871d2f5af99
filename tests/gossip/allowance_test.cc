// How many samples a peer takes before it hears from the others.
#include "gossip/allowance.h"

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {
namespace {

using wire::Phase;

constexpr std::uint64_t kBatch = 10;

RunRules ends_at(std::uint64_t samples) { return rules_of({Pace::Kind::steps, 1000, {}}, {samples, {}, {}}); }

// The limit that the peer was given last; UINT64_MAX: none.
std::uint64_t limit_of(const Life& life) {
  const auto given = all<AllowSamples>(life.out);
  return given.empty() ? UINT64_MAX : given.back().samples;
}

// To whom the questions of these actions go.
std::vector<Address> asked(const std::vector<Action>& actions) {
  std::vector<Address> to;
  for (const auto& [address, gossip] : sent<wire::Gossip>(actions)) {
    const auto& own = gossip.members;
    const bool has_self = std::ranges::find(own, PeerId{1}, &wire::Member::id) != own.end();
    if (gossip.reply_wanted && has_self) to.push_back(address);
  }
  return to;
}

std::vector<Action> answers(Life& life, std::uint64_t k, std::uint64_t samples) {
  return life.hears(k, wire::Gossip{{}, false, {{PeerId{k}, samples}}});
}

std::vector<Action> has_made(Life& life, std::uint64_t samples) {
  return life.happens(Stepped{samples / kBatch, samples});
}

}  // namespace

TEST_CASE("a lone peer may take all samples of the run") {
  Life life;
  life.trains(ends_at(1000));
  CHECK(limit_of(life) == 1000);
  has_made(life, 990);
  CHECK(limit_of(life) == 1000);
  CHECK(all<TrainingEnded>(has_made(life, 1000)).size() == 1);
}

TEST_CASE("a run that does not end by samples has no limit of them") {
  Life life;
  life.trains(rules_of({}, {{}, 100, {}}), {2});
  has_made(life, 500);
  CHECK(all<AllowSamples>(life.out).empty());
}

TEST_CASE("a peer may take its part of what is left, and asks the others when it begins") {
  Life life;
  life.trains(ends_at(1200), {2, 3});
  CHECK(limit_of(life) == 400);
  CHECK(asked(life.out).size() == 2);
  const auto& order = life.out;
  const auto at_allow = std::ranges::find_if(
      order, [](const Action& a) { return a.index() == Action(AllowSamples{}).index(); });
  const auto at_start = std::ranges::find_if(
      order, [](const Action& a) { return a.index() == Action(StartTraining{}).index(); });
  CHECK(at_allow < at_start);
}

TEST_CASE("news of others lowers the limit, and only fresh counts of all raise it") {
  Life life;
  life.trains(ends_at(1200), {2, 3});
  answers(life, 2, 0);
  answers(life, 3, 300);
  CHECK(limit_of(life) == 300);  // 900 / 3
  CHECK(asked(has_made(life, 140)).empty());
  CHECK(asked(has_made(life, 150)).size() == 2);  // half of it is used up
  has_made(life, 300);
  answers(life, 2, 10);
  CHECK(limit_of(life) == 300);  // p3 has not answered
  answers(life, 3, 300);
  CHECK(limit_of(life) == 300 + 590 / 3);
}

TEST_CASE("a member that joins gets its part of what is left") {
  Life life;
  life.trains(ends_at(1000));
  has_made(life, 200);
  life.meets(member(2));
  CHECK(limit_of(life) == 600);
  life.meets(member(3, Phase::joining));
  CHECK(limit_of(life) == 600);  // it does not train yet
  life.meets(member(3));
  CHECK(limit_of(life) == 200 + 800 / 3);
}

// Both know at every moment what the other has consumed: together they consume what was asked for.
TEST_CASE("peers that answer one another consume the samples that were asked for, whatever their speeds") {
  for (const std::uint64_t pace : {1, 2, 7, 50}) {  // steps of the first for one of the second
    Life first({}, 1), second({}, 2);
    Life* const lives[] = {&first, &second};
    std::uint64_t made[] = {0, 0};
    const auto deliver = [&](std::size_t from, const std::vector<Action>& actions) {
      std::vector<std::pair<std::size_t, std::vector<Action>>> open{{from, actions}};
      while (!open.empty()) {
        auto [sender, batch] = std::move(open.back());
        open.pop_back();
        for (const auto& [to, gossip] : sent<wire::Gossip>(batch)) {
          const std::size_t receiver = 1 - sender;
          if (to != address_of(receiver + 1) || lives[receiver]->peer.view().over) continue;
          open.emplace_back(receiver, lives[receiver]->hears(sender + 1, gossip));
        }
      }
    };
    for (const std::size_t k : {0U, 1U}) {
      lives[k]->happens(Start{});
      lives[k]->meets(member(2 - k));
    }
    for (const std::size_t k : {0U, 1U}) deliver(k, lives[k]->happens(Prepared{ends_at(10'000)}));
    for (const std::size_t k : {0U, 1U}) {  // each has exchanged with the other one
      lives[k]->happens(ExchangeOffered{PeerId{2 - k}, 1});
      lives[k]->happens(AnswerEnded{PeerId{2 - k}, 1, Outcome::completed});
    }
    for (std::uint64_t round = 0; round < 10'000; ++round) {
      const std::size_t k = round % (pace + 1) == pace ? 1 : 0;
      if (lives[k]->phase() != Phase::training || made[k] >= limit_of(*lives[k])) continue;
      for (Life* const life : lives) life->now = life->now + 10us;  // counts need time to be credible
      made[k] += kBatch;
      deliver(k, has_made(*lives[k], made[k]));
    }
    CAPTURE(pace, made[0], made[1]);
    CHECK(first.phase() > Phase::training);
    CHECK(second.phase() > Phase::training);
    CHECK(made[0] + made[1] >= 10'000);
    CHECK(made[0] + made[1] <= 10'000 + 2 * kBatch);
    CHECK(made[1] > 0);
  }
}

TEST_CASE("a member that does not answer is passed over after a second, until it is heard again") {
  Life life;
  life.trains(ends_at(1200), {2, 3});
  answers(life, 2, 0);
  answers(life, 3, 0);
  has_made(life, 400);
  REQUIRE(limit_of(life) == 400);
  answers(life, 2, 100);
  life.waits(life.now + Allowance::kAnswerTime - 1ns, {2, 3});
  const auto passed = life.waits(life.now + 1ns, {2, 3});
  CHECK(asked(passed) == std::vector{address_of(2)});  // whose count is no longer fresh
  CHECK(limit_of(life) == 400);
  answers(life, 2, 100);
  CHECK(limit_of(life) == 400 + 700 / 2);
  answers(life, 3, 0);
  CHECK(limit_of(life) == 400 + 700 / 3);
}

TEST_CASE("a member that claims to have consumed nothing does not stop the others") {
  Life life;
  life.trains(ends_at(10'000), {2});
  answers(life, 2, 0);
  std::uint64_t made = 0;
  for (int turns = 0; turns < 1100 && life.phase() == Phase::training; ++turns) {
    for (; life.phase() == Phase::training && made < limit_of(life); made += kBatch)
      has_made(life, made + kBatch);
    if (life.phase() == Phase::training) answers(life, 2, 0);
  }
  CHECK(life.phase() > Phase::training);
  CHECK(made == 10'000);
}

TEST_CASE("members that let a peer wait do so for a bounded time in all") {
  Life life;
  life.trains(ends_at(1'000'000'000), {2});
  std::uint64_t made = 0;
  const Instant began = life.now;
  // It answers each question in the last moment, and the peer is fast.
  for (int turns = 0; turns < 100 && limit_of(life) != UINT64_MAX; ++turns) {
    made = limit_of(life);
    life.happens(Stepped{made / kBatch, made});
    life.waits(life.now + Allowance::kAnswerTime - 1ms, {2});
    if (life.phase() == Phase::training) answers(life, 2, 0);
  }
  CHECK(limit_of(life) == UINT64_MAX);
  CHECK(life.now - began <= Allowance::kPatience + Allowance::kAnswerTime);
}

TEST_CASE("a peer leaves those that begin together with it their part, for a bounded time") {
  PeerOptions options;
  options.membership.expected = 4;
  Life life(options);
  life.trains(ends_at(4000));
  CHECK(limit_of(life) == 1000);
  has_made(life, 1000);
  CHECK(limit_of(life) == 1000);
  life.meets(member(2));
  life.meets(member(3));
  life.meets(member(4, Phase::joining));
  answers(life, 2, 40);
  answers(life, 3, 40);
  CHECK(limit_of(life) == 1000);
  life.meets(member(4));
  CHECK(limit_of(life) == 1000);  // p4 has made no step
  CHECK(asked(answers(life, 4, 40)).size() == 3);
  for (const std::uint64_t k : {2, 3, 4}) answers(life, k, 40);
  CHECK(limit_of(life) == 1000 + 2880 / 4);

  Life patient(options);
  patient.trains(ends_at(4000));
  has_made(patient, 1000);
  patient.waits(patient.now + Allowance::kArrivalTime - 1ms);
  CHECK(limit_of(patient) == 1000);
  patient.waits(patient.now + 1ms);
  CHECK(limit_of(patient) == 4000);
}

TEST_CASE("a peer that comes back counts its earlier samples in its limit") {
  PeerOptions options = joining({2});
  options.earlier = {100, 6400, 20'000, 40s};
  Life life(options);
  life.happens(Start{});
  wire::Member earlier = member(1);
  earlier.samples = 500;  // as the swarm counts them
  wire::Member other = member(2);
  other.samples = 1500;
  life.hears(2, wire::Welcome{manifest(), 45s, {other, earlier}, 0});
  life.happens(Prepared{ends_at(4000)});
  life.happens(StateArrived{});
  CHECK(limit_of(life) == 6400 + 2000 / 2);
}

TEST_CASE("servers get no limit, and are not counted among those that share") {
  RunRules rules = rules_of({Pace::Kind::steps, 1, {}}, {1000, {}, {}}, "complete", Rule::parameter_server);
  PeerOptions options;
  options.name = "s0";
  Life server(options);
  server.trains(rules, {2});
  CHECK(all<AllowSamples>(server.out).empty());

  Life worker;
  wire::Member s0 = member(2);
  s0.name = "s0";
  worker.happens(Start{});
  worker.meets(by_itself(s0));
  worker.meets(member(3));
  worker.happens(Prepared{rules});
  CHECK(limit_of(worker) == 500);
}

}  // namespace starling::gossip
