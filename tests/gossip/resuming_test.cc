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

TEST_CASE("a swarm that still lists a resumed peer's earlier id counts its samples once") {
  Life life(resumed(joining({2})));
  life.happens(Start{});
  wire::Member earlier = member(7);
  earlier.samples = 6500;  // slightly more than in the checkpoint
  earlier.liveness = wire::Liveness::failed;
  wire::Member other = member(2);
  other.samples = 14'000;
  life.hears(2, wire::Welcome{manifest(), 45s, {other, earlier}, 500});
  life.happens(Prepared{rules_of()});
  CHECK(life.peer.view().swarm_samples == 21'000);
  life.happens(Stepped{103, 6400 + 3 * 64});
  CHECK(life.peer.view().swarm_samples == 21'000 + 3 * 64);
  CHECK(life.peer.view().membership.self().steps == 103);
}

TEST_CASE("a resumed peer announces samples of its earlier id that this id had not announced") {
  Life stays;
  stays.trains(rules_of());
  wire::Member killed = member(7);
  killed.samples = 6000;
  stays.hears(7, wire::Join{killed});
  REQUIRE(stays.peer.view().swarm_samples == 6000);

  PeerOptions options = resumed(joining({1}));
  options.earlier.last = {PeerId{7}, 6400};
  Life life(options, 2);
  const auto first = life.happens(Start{});
  const auto told = sent<wire::Gossip>(first);
  REQUIRE(told.size() == 1);
  CHECK(told[0].second.progress == std::vector<wire::Progress>{{PeerId{7}, 6400}});
  stays.hears(2, told[0].second);
  CHECK(stays.peer.view().swarm_samples == 6400);
  const auto welcomes = sent<wire::Welcome>(stays.hears(2, sent<wire::Join>(first).at(0).second));
  REQUIRE(welcomes.size() == 1);
  life.hears(1, welcomes[0].second);
  CHECK(life.peer.view().swarm_samples == 6400);
  CHECK(stays.peer.view().swarm_samples == 6400);

  // A member with a higher count keeps it, and samples of an unknown id are not counted.
  options.earlier.last.samples = 5000;
  Life late(options, 3);
  for (const auto& [to, gossip] : sent<wire::Gossip>(late.happens(Start{}))) stays.hears(2, gossip);
  CHECK(stays.peer.view().swarm_samples == 6400);
  stays.hears(9, wire::Gossip{{}, false, {{PeerId{77}, 1000}}});
  CHECK(stays.peer.view().swarm_samples == 6400);
}

TEST_CASE("a resumed peer announces its earlier id's samples even if the welcoming member forgot that id") {
  PeerOptions options = resumed(joining({2}));
  options.earlier.last = {PeerId{7}, 6400};
  Life life(options);
  life.happens(Start{});
  wire::Member earlier = member(7);
  earlier.samples = 6000;
  earlier.liveness = wire::Liveness::failed;
  life.hears(2, wire::Welcome{manifest(), 45s, {member(2), earlier}, 0});
  CHECK(life.peer.view().swarm_samples == 6400);
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
