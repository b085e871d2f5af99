// What replicas are worth, and when the target is reached.
#include <cmath>

#include "lab/swarm/replica_judge.h"
#include "lab/swarm/mean_evaluator.h"
#include "tests/catch.h"
#include "tests/lab/swarm_folder.h"
#include "training/records/checkpoint.h"

namespace starling::lab {
namespace {

TEST_CASE("replicas are judged each for itself, and the mean over those that count") {
  const SwarmFolder folder;
  const auto data = two_pixels(10);
  const auto plan = softmax_plan(data);
  const auto write = [&](const char* name, float sign) {
    REQUIRE(training::write_safetensors(folder.file(name), plan.layout, pixel_rule(plan, sign), {}).ok());
    return folder.file(name);
  };
  const auto judgement = judge_replicas({{write("right", 3), true},
                                         {write("wrong", -1), true},
                                         {write("left", -5), false},
                                         {"", true},
                                         {folder.file("absent"), true}},
                                        {}, plan, data.test);
  REQUIRE(judgement.replicas.size() == 5);
  CHECK(judgement.replicas[0]->accuracy == 1);
  CHECK(judgement.replicas[1]->accuracy == 0);
  CHECK(judgement.replicas[2]->accuracy == 0);
  CHECK_FALSE(judgement.replicas[3].has_value());
  CHECK_FALSE(judgement.replicas[4].has_value());
  // The mean's sign is 1, and both lie 2 from it.
  CHECK(judgement.mean == pixel_rule(plan, 1));
  CHECK(judgement.mean_score->accuracy == 1);
  CHECK(*judgement.consensus_distance == Approx(2));

  CHECK(*consume_consensus({folder.file("right"), folder.file("right")}, plan) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.file("right")));
  CHECK_FALSE(consume_consensus({folder.file("right")}, plan).has_value());
}

TEST_CASE("servers' parts are judged as the model, in place of the mean") {
  const SwarmFolder folder;
  const auto data = two_pixels(10);
  const auto plan = softmax_plan(data);
  const auto write = [&](const char* name, float sign) {
    REQUIRE(training::write_safetensors(folder.file(name), plan.layout, pixel_rule(plan, sign), {}).ok());
    return folder.file(name);
  };
  const std::vector<ReplicaFile> peers = {{write("wrong", -1), true}};
  const auto judgement = judge_replicas(peers, {write("server", 3)}, plan, data.test);
  CHECK(judgement.replicas[0]->accuracy == 0);
  CHECK(judgement.mean == pixel_rule(plan, 3));
  CHECK(judgement.mean_score->accuracy == 1);
  // Where a part is missing, the mean is all there is.
  CHECK(judge_replicas(peers, {folder.file("absent")}, plan, data.test).mean == pixel_rule(plan, -1));
}

TEST_CASE("where no replica counts there is no mean") {
  const auto data = two_pixels(4);
  const auto judgement = judge_replicas({{"", true}}, {}, softmax_plan(data), data.test);
  CHECK(judgement.mean.empty());
  CHECK_FALSE(judgement.mean_score.has_value());
  CHECK_FALSE(judgement.consensus_distance.has_value());
}

TEST_CASE("the mean of a snapshot reaches the target, in the order of the snapshots, whose files are removed") {
  const SwarmFolder folder;
  const auto data = two_pixels(1500);  // more than a first look tests
  const auto plan = softmax_plan(data);
  int files = 0;
  const auto write = [&](float sign) {
    const std::string path = folder.file("snapshot-" + std::to_string(++files));
    REQUIRE(training::write_safetensors(path, plan.layout, pixel_rule(plan, sign), {}).ok());
    return path;
  };
  MeanEvaluator evaluator(plan, data.test, {.target = 0.9});
  evaluator.add({1.0, {write(-3), write(1)}});
  evaluator.add({2.0, {write(-1), write(3)}});
  evaluator.add({3.0, {write(1), write(1)}});
  evaluator.finish();
  const auto seen = evaluator.take();
  REQUIRE(seen.size() == 2);  // after the target nothing needs to be looked at
  CHECK(seen[0].seconds == 1.0);
  CHECK(seen[0].accuracy == 0);
  CHECK_FALSE(seen[0].reached);
  CHECK(seen[1].seconds == 2.0);
  CHECK(seen[1].accuracy == 1);
  CHECK(seen[1].consensus_distance == Approx(2));
  CHECK(seen[1].reached);
  CHECK(evaluator.take().empty());
  for (int i = 1; i <= files; ++i) {
    CHECK_FALSE(std::filesystem::exists(folder.file("snapshot-" + std::to_string(i))));
  }
}

}  // namespace
}  // namespace starling::lab
