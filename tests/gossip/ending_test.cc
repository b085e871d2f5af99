#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Phase;

namespace {

// Completes every exchange that the peer begins, starting with `begun`. Returns their number.
std::uint64_t completes_all(Life& life, std::vector<Action> actions) {
  std::uint64_t count = 0;
  for (;;) {
    const auto begun = all<BeginExchange>(actions);
    if (begun.empty()) return count;
    REQUIRE(begun.size() == 1);
    ++count;
    actions = life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed});
  }
}

// The peer ends its training, and then these others do.
std::vector<Action> everyone_ends(Life& life, const std::vector<std::uint64_t>& others) {
  std::vector<Action> actions = life.happens(EndRequested{});
  for (const auto k : others) {
    const auto more = life.meets(member(k, Phase::settling));
    actions.insert(actions.end(), more.begin(), more.end());
  }
  return actions;
}

void everyone_is(Life& life, Phase phase, const std::vector<std::uint64_t>& others) {
  for (const auto k : others) {
    if (!life.peer.view().over) life.meets(member(k, phase));
  }
}

}  // namespace

TEST_CASE("a peer ends its training when the swarm, including itself, has consumed enough samples") {
  Life life;
  life.trains(rules_of({}, {1000, {}, {}}), {2});
  REQUIRE(all<TrainingEnded>(life.happens(Stepped{4, 400})).empty());
  auto other = member(2);
  other.samples = 600;
  const auto end = life.meets(other);
  REQUIRE(all<StopTraining>(end).size() == 1);
  REQUIRE(all<TrainingEnded>(end).size() == 1);
  REQUIRE(life.phase() == Phase::settling);
}

TEST_CASE("a peer ends its training after its own steps") {
  Life life;
  life.trains(rules_of({}, {{}, 10, {}}), {2});
  REQUIRE(all<TrainingEnded>(life.happens(Stepped{9, 9})).empty());
  REQUIRE(all<TrainingEnded>(life.happens(Stepped{10, 10})).size() == 1);
}

TEST_CASE("a peer ends its training when the run's time is over, measured from the run's start") {
  Life life;
  life.now = at(5s);
  life.trains(rules_of({}, {{}, {}, 20s}), {2});
  REQUIRE(all<TrainingEnded>(life.waits(at(24'999ms), {2})).empty());
  REQUIRE(all<TrainingEnded>(life.waits(at(25s), {2})).size() == 1);

  Life joiner(joining({2}));
  joiner.happens(Start{});
  joiner.hears(2, wire::Welcome{manifest(), 15s, {member(2)}});
  joiner.happens(Prepared{rules_of({}, {{}, {}, 20s})});
  joiner.happens(StateArrived{});
  REQUIRE(all<TrainingEnded>(joiner.waits(at(4'999ms), {2})).empty());
  REQUIRE(all<TrainingEnded>(joiner.waits(at(5s), {2})).size() == 1);
}

TEST_CASE("a peer ends its training on request") {
  Life life;
  life.trains(rules_of(), {2});
  REQUIRE(all<TrainingEnded>(life.happens(EndRequested{})).size() == 1);
  REQUIRE(all<TrainingEnded>(life.happens(EndRequested{})).empty());
}

TEST_CASE("a peer without parameters leaves without settling when it is asked to end") {
  Life life(joining({2}));
  life.happens(Start{});
  const auto end = life.happens(EndRequested{});
  REQUIRE(all<Finish>(end).size() == 1);
  REQUIRE(all<Finish>(end)[0].how == Finish::How::left);
}

TEST_CASE("a peer that joins after the end of training only settles with the others") {
  Life life(joining({2}));
  life.happens(Start{});
  auto done = member(2, Phase::settling);
  done.samples = 1000;
  life.hears(2, wire::Welcome{manifest(), 15s, {done}});
  life.happens(Prepared{rules_of({}, {500, {}, {}})});
  const auto end = life.happens(StateArrived{});
  REQUIRE(all<StartTraining>(end).empty());
  REQUIRE(all<TrainingEnded>(end).size() == 1);
  REQUIRE(all<BeginExchange>(end).size() == 1);
}

TEST_CASE("settling takes 2 + log2 n exchanges, rounded up, and no further training") {
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> cases = {{2, 3}, {3, 4}, {4, 4}, {5, 5},
                                                                      {8, 5}, {9, 6}, {16, 6}};
  for (const auto& [n, exchanges] : cases) {
    Life life;
    std::vector<std::uint64_t> others;
    for (std::uint64_t k = 2; k <= n; ++k) others.push_back(k);
    life.trains(rules_of(), others);
    CAPTURE(n);
    REQUIRE(completes_all(life, everyone_ends(life, others)) == exchanges);
    REQUIRE(life.phase() == Phase::finished);
  }
}

TEST_CASE("an exchange in flight when training ends is completed before settling begins") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 1}));
  REQUIRE(all<BeginExchange>(everyone_ends(life, {2})).empty());
  REQUIRE(life.phase() == Phase::settling);
  REQUIRE(completes_all(life, life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed})) == 3);
}

TEST_CASE("a lone peer finishes without settling, and so does a peer without exchanges") {
  Life alone;
  alone.trains(rules_of());
  const auto end = alone.happens(EndRequested{});
  REQUIRE(all<BeginExchange>(end).empty());
  REQUIRE(std::get<Finish>(end.back()).how == Finish::How::finished);

  Life quiet;
  quiet.trains(rules_of({}, {}, "complete", Rule::none), {2});
  const auto stop = quiet.happens(EndRequested{});
  REQUIRE(all<BeginExchange>(stop).empty());
  REQUIRE(all<Finish>(stop).empty());
  REQUIRE(quiet.phase() == Phase::finished);
}

TEST_CASE("a finished peer answers the others until they have settled, then sends a goodbye and stops") {
  Life life;
  life.trains(rules_of(), {2, 3});
  completes_all(life, everyone_ends(life, {2, 3}));
  REQUIRE_FALSE(life.peer.view().over);
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1}))[0].accept);
  life.meets(member(2, Phase::finished));
  REQUIRE(all<Finish>(life.meets(member(3, Phase::finished))).empty());  // the answer is still in progress
  const auto end = life.happens(AnswerEnded{PeerId{2}, 1});
  REQUIRE(sent<wire::Leave>(end).size() == 2);
  REQUIRE(std::get<Finish>(end.back()).how == Finish::How::finished);
  REQUIRE(std::get<Finish>(end.back()).why.empty());
}

TEST_CASE("a finished peer ignores dead members and waits a limited time for live ones") {
  Life life;
  life.trains(rules_of(), {2, 3});
  life.waits(at(30s), {3});
  REQUIRE(life.peer.view().membership.find(PeerId{2})->member.liveness == Liveness::failed);
  life.meets(said_to_be(member(3), Liveness::left));
  completes_all(life, life.happens(EndRequested{}));
  REQUIRE(life.peer.view().over);

  Life patient;
  patient.trains(rules_of(), {2});
  completes_all(patient, everyone_ends(patient, {2}));
  const Instant finished = patient.now;
  REQUIRE(all<Finish>(patient.waits(finished + 9999ms, {2})).empty());
  REQUIRE(all<Finish>(patient.waits(finished + 10s, {2})).size() == 1);
}

TEST_CASE("a settling peer without live partners finishes") {
  Life life;
  life.trains(rules_of(), {2});
  const auto begun = all<BeginExchange>(everyone_ends(life, {2}));
  REQUIRE(begun.size() == 1);
  life.happens(Unreachable{address_of(2), false, "gone"});
  life.happens(ExchangeEnded{begun[0].exchange, Outcome::aborted});
  life.waits(at(1s));
  REQUIRE(life.phase() == Phase::finished);
  const auto notices = all<Notice>(life.out);
  REQUIRE(std::ranges::any_of(
      notices, [](const Notice& it) { return it.what == Notice::What::unsettled && it.text == "3"; }));
}

TEST_CASE("a peer settles once nobody trains, and only with members that have ended their training") {
  Life life;
  life.trains(rules_of(), {2, 3});
  REQUIRE(all<BeginExchange>(life.happens(EndRequested{})).empty());
  REQUIRE(all<BeginExchange>(life.meets(member(2, Phase::settling))).empty());
  const auto begun = all<BeginExchange>(life.meets(member(3, Phase::settling)));
  REQUIRE(begun.size() == 1);

  SECTION("it waits for the others for a limited time") {
    Life hasty;
    hasty.trains(rules_of(), {2, 3});
    REQUIRE(all<BeginExchange>(hasty.happens(EndRequested{})).empty());
    hasty.meets(member(2, Phase::settling));
    REQUIRE(all<BeginExchange>(hasty.waits(hasty.now + 9999ms, {2, 3})).empty());
    const auto first = all<BeginExchange>(hasty.waits(hasty.now + 1ms, {2, 3}));
    REQUIRE(first.size() == 1);
    REQUIRE(first[0].partner.id == PeerId{2});
  }
  SECTION("without one that has ended it finishes, and says so") {
    Life alone;
    alone.trains(rules_of(), {2, 3});
    alone.happens(EndRequested{});
    REQUIRE(all<BeginExchange>(alone.waits(alone.now + 12s, {2, 3})).empty());
    REQUIRE(alone.phase() == Phase::finished);
  }
  SECTION("it answers members that train") {
    Life waiting;
    waiting.trains(rules_of(), {2, 3});
    waiting.happens(EndRequested{});
    REQUIRE(all<AnswerOffer>(waiting.happens(ExchangeOffered{PeerId{2}, 1}))[0].accept);
  }
}

TEST_CASE("settling counts completed exchanges and makes a bounded number of tries") {
  Life life;
  life.trains(rules_of(), {2, 3});
  auto begun = all<BeginExchange>(everyone_ends(life, {2, 3}));
  std::size_t tries = 0;
  while (!begun.empty()) {
    ++tries;
    life.happens(ExchangeEnded{begun[0].exchange, Outcome::rejected});
    begun = all<BeginExchange>(life.waits(life.now + 10s, {2, 3}));
    if (begun.size() > 1) begun.resize(1);
  }
  REQUIRE(tries > 4);
  REQUIRE(tries <= 16);
}

TEST_CASE("a peer that leaves stops training, makes one last exchange, and then sends a goodbye") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 8, {}}), {2, 3});
  const auto leaving = life.happens(LeaveRequested{});
  REQUIRE(all<StopTraining>(leaving).size() == 1);
  const auto last = all<BeginExchange>(leaving);
  REQUIRE(last.size() == 1);
  REQUIRE(sent<wire::Leave>(leaving).empty());
  REQUIRE(life.happens(LeaveRequested{}).empty());  // a second request changes nothing
  const auto end = life.happens(ExchangeEnded{last[0].exchange, Outcome::completed});
  REQUIRE(sent<wire::Leave>(end).size() == 2);
  REQUIRE(std::get<Finish>(end.back()).how == Finish::How::left);
  REQUIRE(life.peer.view().over);
}

TEST_CASE("a leaving peer completes its exchange in flight and then makes one last exchange") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2, 3});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 1}));
  REQUIRE(begun.size() == 1);
  REQUIRE(all<BeginExchange>(life.happens(LeaveRequested{})).empty());
  const auto last = all<BeginExchange>(life.happens(ExchangeEnded{begun[0].exchange, Outcome::completed}));
  REQUIRE(last.size() == 1);
  REQUIRE(all<Finish>(life.happens(ExchangeEnded{last[0].exchange, Outcome::completed})).size() == 1);
}

TEST_CASE("a leaving peer that is rejected tries another neighbor, and leaves without one") {
  Life life;
  life.trains(rules_of(), {2, 3});
  const auto first = all<BeginExchange>(life.happens(LeaveRequested{}));
  const auto second =
      all<BeginExchange>(life.happens(ExchangeEnded{first.at(0).exchange, Outcome::rejected}));
  REQUIRE(second.size() == 1);
  REQUIRE(second[0].partner.id != first[0].partner.id);
  REQUIRE(all<Finish>(life.happens(ExchangeEnded{second[0].exchange, Outcome::aborted})).size() == 1);
}

TEST_CASE("a leaving peer waits a limited time for its last exchange, if it has neighbors") {
  Life life;
  life.trains(rules_of(), {2});
  const auto begun = all<BeginExchange>(life.happens(LeaveRequested{}));
  REQUIRE(all<Finish>(life.waits(at(1499ms), {2})).empty());
  const auto end = life.waits(at(1500ms), {2});
  REQUIRE(all<AbortExchange>(end).at(0).exchange == begun.at(0).exchange);
  REQUIRE(std::get<Finish>(end.back()).how == Finish::How::left);

  Life alone;
  alone.trains(rules_of());
  REQUIRE(std::get<Finish>(alone.happens(LeaveRequested{}).back()).how == Finish::How::left);
}

TEST_CASE("Finish is the last action of its step and of the peer") {
  Random random(3);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    PeerOptions options;
    options.seed = seed;
    Life life(options);
    life.trains(rules_of({Pace::Kind::steps, 1, {}}, {{}, 3, {}}), {2, 3});
    if (random.chance(0.3)) life.happens(LeaveRequested{});
    for (std::uint64_t k = 1; k <= 3 && !life.peer.view().over; ++k) life.happens(Stepped{k, k});
    everyone_is(life, Phase::settling, {2, 3});
    for (int k = 0; k < 100 && !life.peer.view().over; ++k) {
      const auto begun = all<BeginExchange>(life.out);
      if (life.phase() < Phase::finished) {  // settling, or leaving
        life.happens(ExchangeEnded{begun.back().exchange, Outcome::completed});
      } else {
        everyone_is(life, Phase::finished, {2, 3});
      }
    }
    REQUIRE(all<Finish>(life.out).size() == 1);
    REQUIRE(std::holds_alternative<Finish>(life.out.back()));
  }
}

}  // namespace starling::gossip
