// A peer whose own replica is lost, because its steps produced NaN.

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

TEST_CASE("a peer whose replica is lost discards its steps, copies a member's replica, and resumes") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 32}));
  const auto lost = life.happens(ReplicaDiverged{});
  REQUIRE(noticed(lost, Notice::What::diverged).size() == 1);
  REQUIRE(all<PauseTraining>(lost).at(0).discard);
  REQUIRE(all<AbortExchange>(lost).at(0).exchange == begun.at(0).exchange);
  const auto fetch = all<FetchState>(lost);
  REQUIRE(fetch.at(0).donor.id == PeerId{2});
  REQUIRE(fetch[0].afresh);
  REQUIRE(life.peer.view().diverged);

  // Meanwhile it neither begins nor accepts exchanges. A second report changes nothing.
  REQUIRE(all<BeginExchange>(life.happens(Stepped{50, 1600})).empty());
  const auto refused = all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1}));
  REQUIRE_FALSE(refused.at(0).accept);
  REQUIRE(refused[0].reason == wire::RefusalReason::not_ready);
  REQUIRE(life.happens(ReplicaDiverged{}).empty());

  const auto back = life.happens(StateArrived{});
  REQUIRE(all<ResumeTraining>(back).at(0).renewed);
  REQUIRE(all<StartTraining>(back).empty());
  REQUIRE_FALSE(life.peer.view().diverged);
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 2})).at(0).accept);
  life.waits(at(2s), {2});
  REQUIRE(all<BeginExchange>(life.happens(Stepped{51, 1632})).size() == 1);
}

TEST_CASE("a peer whose device is lost aborts its exchanges, sends a goodbye and fails with the reason") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2});
  const auto begun = all<BeginExchange>(life.happens(Stepped{1, 32}));
  const auto end = life.happens(ReplicaGone{"cuda:0 is lost"});
  REQUIRE(all<StopTraining>(end).size() == 1);
  REQUIRE(all<AbortExchange>(end).at(0).exchange == begun.at(0).exchange);
  REQUIRE(all<Finish>(end).at(0).how == Finish::How::failed);
  REQUIRE(all<Finish>(end)[0].why == "cuda:0 is lost");
  REQUIRE(life.peer.view().over);
  REQUIRE(sent<wire::Leave>(end).size() == 1);  // receivers need not detect the failure
}

TEST_CASE("repeated losses soon after a copy double the delay, and then the peer fails") {
  Life life;
  life.trains(rules_of(), {2});
  std::vector<Duration> waited;
  std::uint64_t steps = 0;
  while (!life.peer.view().over && waited.size() < 100) {
    const Instant lost = life.now;
    auto told = life.happens(ReplicaDiverged{});
    while (all<FetchState>(told).empty() && !life.peer.view().over) told = life.waits(life.now + 10ms, {2});
    if (life.peer.view().over) break;
    waited.push_back(life.now - lost);
    life.happens(StateArrived{});
    life.happens(Stepped{steps += 999, 0});
  }
  REQUIRE(waited.size() == 5);
  REQUIRE(waited[0] == 0s);
  REQUIRE(waited[1] >= 190ms);
  for (std::size_t k = 2; k < waited.size(); ++k) REQUIRE(waited[k] >= 2 * waited[k - 1] - 20ms);
  const auto end = all<Finish>(life.out);
  REQUIRE(end.size() == 1);
  REQUIRE(end[0].how == Finish::How::failed);
  REQUIRE(end[0].why.find("training.learning_rate") != std::string::npos);
  REQUIRE(sent<wire::Leave>(life.out).size() == 1);
}

TEST_CASE("a replica that lasts for a while after each copy may be lost repeatedly") {
  Life life;
  life.trains(rules_of(), {2});
  for (std::uint64_t k = 1; k <= 50; ++k) {
    REQUIRE(all<FetchState>(life.happens(ReplicaDiverged{})).size() == 1);  // at once
    life.happens(StateArrived{});
    life.happens(Stepped{1000 * k, 0});
  }
  REQUIRE_FALSE(life.peer.view().over);
}

TEST_CASE("a lost donor is replaced by another, and chunks in place are kept") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2, 3});
  const auto first = all<FetchState>(life.happens(ReplicaDiverged{}));
  life.happens(StateLost{"it is gone"});
  const auto second = all<FetchState>(life.waits(at(1s), {2, 3}));
  REQUIRE(second.at(0).donor.id != first.at(0).donor.id);
  REQUIRE_FALSE(second[0].afresh);
}

TEST_CASE("a lone peer whose replica is lost fails with the likely cause") {
  Life life;
  life.trains(rules_of());
  const auto end = all<Finish>(life.happens(ReplicaDiverged{}));
  REQUIRE(end.size() == 1);
  REQUIRE(end[0].how == Finish::How::failed);
  REQUIRE(end[0].why.find("learning_rate") != std::string::npos);
}

TEST_CASE("a peer fails if no member has finite parameters for half a minute") {
  Life life;
  life.trains(rules_of(), {2});
  life.happens(ReplicaDiverged{});
  std::vector<Action> end;
  while (!life.peer.view().over && life.now < at(60s)) {
    life.happens(StateLost{"p2 has no finite parameters either"});
    end = life.waits(life.now + 500ms, {2});
  }
  REQUIRE(life.peer.view().over);
  REQUIRE(life.now >= at(30s));
  REQUIRE(life.now <= at(31s));
  REQUIRE(all<Finish>(life.out).at(0).how == Finish::How::failed);
}

TEST_CASE("training does not end before a lost replica is replaced") {
  Life life;
  life.trains(rules_of({Pace::Kind::steps, 1, {}}, {{}, 5, {}}), {2});
  life.happens(ReplicaDiverged{});
  life.happens(Stepped{5, 160});
  REQUIRE(life.phase() == wire::Phase::training);
  life.happens(StateArrived{});
  REQUIRE(life.phase() == wire::Phase::settling);
}

TEST_CASE("a peer without a replica leaves at once when asked") {
  Life life;
  life.trains(rules_of(), {2});
  life.happens(ReplicaDiverged{});
  const auto gone = life.happens(LeaveRequested{});
  REQUIRE(all<Finish>(gone).at(0).how == Finish::How::left);
  REQUIRE(all<BeginExchange>(gone).empty());
}

TEST_CASE("in lock-step the loss of the replica ends the round, and held offers are rejected") {
  Life life(PeerOptions{}, 9);
  life.trains(rules_of({Pace::Kind::steps, 1, {}}, {}, "complete", Rule::d_psgd), {2, 3});
  REQUIRE(all<AnswerOffer>(life.happens(ExchangeOffered{PeerId{2}, 1, 2})).empty());
  const auto lost = life.happens(ReplicaDiverged{});
  REQUIRE(all<AnswerOffer>(lost).size() == 1);
  REQUIRE_FALSE(all<AnswerOffer>(lost)[0].accept);
  life.happens(StateArrived{});
  REQUIRE(all<BeginRound>(life.happens(Stepped{2, 64})).size() == 1);
}

}  // namespace starling::gossip
