// A peer that resumes from a checkpoint: its own counts, and its samples in the swarm's sum.
#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {
namespace {

PeerOptions resumed(PeerOptions options = {}) {
  options.earlier = {100, 6400, 20'000, 40s};
  return options;
}

}  // namespace

TEST_CASE("a lone peer that resumes continues its steps, the swarm's samples and the run's time") {
  Life life(resumed());
  const End end{.swarm_samples = std::nullopt, .steps = 110, .time = std::nullopt};
  life.trains(rules_of({}, end));
  const auto view = life.peer.view();
  CHECK(view.membership.self().steps == 100);
  CHECK(view.membership.self().samples == 0);
  CHECK(view.swarm_samples == 20'000);
  CHECK(view.run_start == at(0s) - 40s);
  CHECK(all<TrainingEnded>(life.happens(Stepped{109, 6400 + 9 * 64})).empty());
  CHECK(life.peer.view().swarm_samples == 20'000 + 9 * 64);
  CHECK(all<TrainingEnded>(life.happens(Stepped{110, 6400 + 10 * 64})).size() == 1);
}

TEST_CASE("a resumed run ends after its epochs or its time, both counted over all its parts") {
  Life by_samples(resumed());
  by_samples.trains(rules_of({}, {.swarm_samples = 20'064, .steps = std::nullopt, .time = std::nullopt}));
  CHECK(all<TrainingEnded>(by_samples.happens(Stepped{100, 6400})).empty());
  CHECK(all<TrainingEnded>(by_samples.happens(Stepped{101, 6464})).size() == 1);

  Life by_time(resumed());
  by_time.trains(rules_of({}, {.swarm_samples = std::nullopt, .steps = std::nullopt, .time = 60s}));
  CHECK(all<TrainingEnded>(by_time.waits(at(19s))).empty());
  CHECK(all<TrainingEnded>(by_time.waits(at(21s))).size() == 1);
}

TEST_CASE("a resumed run that was already over ends without a step") {
  Life life(resumed());
  life.trains(rules_of({}, {.swarm_samples = 20'000, .steps = std::nullopt, .time = std::nullopt}));
  CHECK(all<StartTraining>(life.out).empty());
  CHECK(all<TrainingEnded>(life.out).size() == 1);
}

TEST_CASE("a swarm that knows a resumed peer counts its samples once") {
  for (const wire::Liveness liveness : {wire::Liveness::alive, wire::Liveness::failed}) {
    Life life(resumed(joining({2})));
    life.happens(Start{});
    wire::Member earlier = member(1);
    earlier.samples = 6500;  // slightly more than in the checkpoint
    earlier.liveness = liveness;
    wire::Member other = member(2);
    other.samples = 14'000;
    life.hears(2, wire::Welcome{manifest(), 45s, {other, earlier}, 500});
    life.happens(Prepared{rules_of()});
    CHECK(life.peer.view().swarm_samples == 21'000);
    CHECK(life.peer.view().membership.self().samples == 6500);
    life.happens(Stepped{103, 6400 + 3 * 64});
    CHECK(life.peer.view().swarm_samples == 21'000 + 3 * 64);
    CHECK(life.peer.view().membership.self().steps == 103);
  }
}

TEST_CASE(
    "a resumed peer counts the samples of its checkpoint if the swarm knows fewer, of the same id only") {
  struct Last {
    std::uint64_t id, samples, counted;
  };
  for (const Last last : {Last{1, 6600, 6600}, Last{1, 6400, 6500}, Last{7, 6600, 6500}, Last{0, 0, 6500}}) {
    PeerOptions options = resumed(joining({2}));
    options.earlier.last = {PeerId{last.id}, last.samples};
    Life life(options);
    life.happens(Start{});
    wire::Member earlier = member(1);
    earlier.samples = 6500;
    life.hears(2, wire::Welcome{manifest(), 45s, {member(2), earlier}, 0});
    CHECK(life.peer.view().membership.self().samples == last.counted);
    life.happens(Prepared{rules_of()});
    life.happens(Stepped{101, 6400 + 64});
    CHECK(life.peer.view().membership.self().samples == last.counted + 64);
  }
}

TEST_CASE("in a swarm that does not know its id a resumed peer counts from 0") {
  PeerOptions options = resumed(joining({2}));
  options.earlier.last = {PeerId{1}, 6400};  // retired_samples has them
  Life life(options);
  life.happens(Start{});
  life.hears(2, wire::Welcome{manifest(), 45s, {member(2)}, 6400});
  life.happens(Prepared{rules_of()});
  CHECK(life.peer.view().swarm_samples == 6400);
  life.happens(Stepped{101, 6400 + 64});
  CHECK(life.peer.view().membership.self().samples == 64);
  CHECK(life.peer.view().swarm_samples == 6400 + 64);
}

TEST_CASE("the next life of a member continues its samples and gets a higher incarnation") {
  for (const std::uint32_t incarnation : {0U, 5U}) {  // of the earlier life
    Life stays;
    stays.trains(rules_of());
    stays.now = at(20s);
    wire::Member killed = said_to_be(member(2), wire::Liveness::alive, incarnation);
    killed.samples = 4000;
    stays.meets(killed);
    REQUIRE(stays.peer.view().swarm_samples == 4000);

    Life life(resumed(joining({1})), 2);
    const auto join = sent<wire::Join>(life.happens(Start{})).at(0).second;
    const auto welcomes = sent<wire::Welcome>(stays.hears(2, join));
    REQUIRE(welcomes.size() == 1);
    REQUIRE(stays.peer.view().membership.find(PeerId{2})->member.incarnation == incarnation);
    life.hears(1, welcomes[0].second);
    const wire::Member& self = life.peer.view().membership.self();
    CHECK(self.incarnation == incarnation + 1);
    CHECK(self.phase == wire::Phase::joining);
    CHECK(life.peer.view().swarm_samples == 4000);

    life.happens(Prepared{rules_of()});
    life.happens(Stepped{101, 6400 + 64});
    stays.meets(self);
    CHECK(stays.peer.view().membership.find(PeerId{2})->member.phase == wire::Phase::joining);
    CHECK(stays.peer.view().swarm_samples == 4000);  // until it trains
    life.happens(StateArrived{});
    stays.meets(self);
    CHECK(stays.peer.view().membership.find(PeerId{2})->member.phase == wire::Phase::training);
    CHECK(stays.peer.view().swarm_samples == 4064);
    CHECK(life.peer.view().swarm_samples == 4064);
  }
}

TEST_CASE("after a blackout the joiner adds no samples twice") {
  Life first(resumed());
  first.trains(rules_of());
  PeerOptions options = joining({1});
  options.earlier = {50, 3200, 19'000, 30s};
  Life second(options, 2);
  second.happens(Start{});
  const auto told = first.hears(2, wire::Join{second.peer.view().membership.self()});
  const auto welcomes = sent<wire::Welcome>(told);
  REQUIRE(welcomes.size() == 1);
  second.hears(1, welcomes.front().second);
  CHECK(first.peer.view().swarm_samples == 20'000);
  CHECK(second.peer.view().swarm_samples == 20'000);
}

}  // namespace starling::gossip
