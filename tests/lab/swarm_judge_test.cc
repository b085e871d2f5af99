// Evaluations of replicas and of their mean.
#include <cmath>

#include "lab/swarm/replica_judge.h"
#include "tests/catch.h"
#include "tests/lab/swarm_folder.h"
#include "training/runs/records/checkpoint.h"

namespace starling::lab {
namespace {

TEST_CASE("each replica is evaluated, and so is the mean of those that count") {
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
  // The mean has the sign 1, and both replicas have the distance 2 from it.
  CHECK(judgement.mean == pixel_rule(plan, 1));
  CHECK(judgement.mean_score->accuracy == 1);
  CHECK(*judgement.consensus_distance == Approx(2));

  CHECK(*consume_consensus({folder.file("right"), folder.file("right")}, plan) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.file("right")));
  CHECK_FALSE(consume_consensus({folder.file("right")}, plan).has_value());
}

TEST_CASE("the servers' parts are evaluated as the model, instead of the mean") {
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
  // If a part is missing, the mean is evaluated.
  CHECK(judge_replicas(peers, {folder.file("absent")}, plan, data.test).mean == pixel_rule(plan, -1));
}

TEST_CASE("there is no mean if no replica counts") {
  const auto data = two_pixels(4);
  const auto judgement = judge_replicas({{"", true}}, {}, softmax_plan(data), data.test);
  CHECK(judgement.mean.empty());
  CHECK_FALSE(judgement.mean_score.has_value());
  CHECK_FALSE(judgement.consensus_distance.has_value());
}

TEST_CASE("snapshots are evaluated in order until the target is reached, and their files are removed") {
  const SwarmFolder folder;
  const auto data = two_pixels(1500);  // more than the first images of an evaluation
  const auto plan = softmax_plan(data);
  int files = 0;
  const auto write = [&](float sign) {
    const std::string path = folder.file("snapshot-" + std::to_string(++files));
    REQUIRE(training::write_safetensors(path, plan.layout, pixel_rule(plan, sign), {}).ok());
    return path;
  };
  MeanEvaluator::Options options;
  options.target.target_accuracy = 0.9;
  MeanEvaluator evaluator(plan, data.test, options);
  evaluator.add({1.0, {write(-3), write(1)}});
  evaluator.add({2.0, {write(-1), write(3)}});
  evaluator.add({3.0, {write(1), write(1)}});
  evaluator.finish();
  const auto done = evaluator.take();
  REQUIRE(done.size() == 2);  // none after the target
  CHECK(done[0].seconds == 1.0);
  CHECK(done[0].accuracy == 0);
  CHECK_FALSE(done[0].reached);
  CHECK(done[1].seconds == 2.0);
  CHECK(done[1].accuracy == 1);
  CHECK(done[1].consensus_distance == Approx(2));
  CHECK(done[1].reached);
  CHECK(evaluator.take().empty());
  for (int i = 1; i <= files; ++i) {
    CHECK_FALSE(std::filesystem::exists(folder.file("snapshot-" + std::to_string(i))));
  }
}

TEST_CASE("snapshots that exceed the share of processor time are removed without evaluation") {
  const SwarmFolder folder;
  const auto data = two_pixels(100);
  const auto plan = softmax_plan(data);
  const auto evaluations = [&](double share, double seconds) {
    MeanEvaluator evaluator(plan, data.test, {.processor_share = share});
    for (int i = 0; i < 3; ++i) {
      const std::string path = folder.file("snapshot-" + std::to_string(i));
      REQUIRE(training::write_safetensors(path, plan.layout, pixel_rule(plan, 1), {}).ok());
      evaluator.add({seconds, {path}});
    }
    evaluator.finish();
    for (int i = 0; i < 3; ++i)
      CHECK_FALSE(std::filesystem::exists(folder.file("snapshot-" + std::to_string(i))));
    return evaluator.take().size();
  };
  CHECK(evaluations(0, 1000) == 0);
  CHECK(evaluations(0.5, 1e-9) == 0);
  CHECK(evaluations(0.5, 1000) == 3);
  CHECK(evaluations(MeanEvaluator::kUnlimited, 0) == 3);
}

}  // namespace
}  // namespace starling::lab
