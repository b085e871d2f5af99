// How the devices of a peer divide its network, and workers that compute in stages.
#include "training/learning/split.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "datasets/glyphs.h"
#include "kernels/by_name/backends.h"
#include "models/arena.h"
#include "tests/catch.h"
#include "tests/seeds.h"
#include "training/learning/recipe.h"
#include "training/learning/stage_records.h"
#include "training/runs/experiment/check.h"

namespace starling::training {
namespace {

Experiment staged(std::size_t devices) {
  Experiment experiment;
  experiment.model.name = "lenet";
  experiment.training.batch_size = 12;
  experiment.training.split = Split::stages;
  for (std::size_t k = 0; k < devices; ++k) experiment.training.devices.push_back("cpu:" + std::to_string(k));
  return experiment;
}

struct SplitBench {
  datasets::DataPair data = datasets::make_glyphs(1, 120, 20);
  models::Plan plan = *make_plan(staged(2), data.train);
  std::unique_ptr<kernels::Backend> backend = std::move(*kernels::make_backend("reference"));

  std::string why_not(const Experiment& experiment) const {
    const auto settled = settle_split(experiment, plan, nullptr);
    return settled ? "" : settled.error().message;
  }

  // The parameters after some steps of the experiment's worker.
  std::vector<float> trained(const Experiment& experiment, int steps) const {
    auto workers = make_workers(experiment, plan, *backend, data.train, 0, 1);
    REQUIRE(workers.ok());
    Worker& worker = *workers->front();
    models::Arena arena(plan.layout.arena_size(), *backend);
    arena.write(0, first_parameters(plan, 1));
    for (int i = 0; i < steps; ++i) {
      worker.feed(arena);
      while (worker.land()) {
      }
    }
    std::vector<float> x(arena.size());
    arena.read(0, x);
    return x;
  }
};

}  // namespace

TEST_CASE("stages get cuts and micro-batches, in every run the same") {
  const SplitBench bench;
  for (std::size_t devices = 2; devices <= 5; ++devices) {
    const auto settled = settle_split(staged(devices), bench.plan, nullptr);
    REQUIRE(settled.ok());
    CHECK(settled->pipeline.cuts.size() == devices - 1);
    CHECK(std::is_sorted(settled->pipeline.cuts.begin(), settled->pipeline.cuts.end()));
    CHECK(settled->pipeline.micro_batches == resolved_micro_batches(staged(devices), devices));
    CHECK(settle_split(staged(devices), bench.plan, bench.backend.get())->pipeline.cuts ==
          settled->pipeline.cuts);
    CHECK(*settle_split(*settled, bench.plan, nullptr) == *settled);
  }
  Experiment given = staged(2);
  given.pipeline.cuts = {6};
  const auto settled = settle_split(given, bench.plan, nullptr);
  REQUIRE(settled.ok());
  CHECK(settled->pipeline.cuts == std::vector<int>{6});
  CHECK(split_text(*settled, bench.plan) ==
        "2 stages: conv1 to pool2, fc1 to fc2; 1f1b, 6 micro-batches of 2 samples");
  for (const Experiment& other : {Experiment{}, staged(1)})
    CHECK(*settle_split(other, bench.plan, nullptr) == other);
}

TEST_CASE("devices may be replicas of stages") {
  const SplitBench bench;
  Experiment experiment = staged(4);
  experiment.pipeline.stage_replicas = {2, 1, 1};
  const auto settled = settle_split(experiment, bench.plan, nullptr);
  REQUIRE(settled.ok());
  CHECK(settled->pipeline.cuts.size() == 2);
  CHECK(settled->pipeline.micro_batches == 12);
  CHECK(split_text(*settled, bench.plan).starts_with("3 stages: conv1 to "));
  CHECK(split_text(*settled, bench.plan).find(" on 2 devices, ") != std::string::npos);
  CHECK(*settle_split(*settled, bench.plan, nullptr) == *settled);
  experiment.pipeline.micro_batches = 3;
  CHECK(bench.why_not(experiment) ==
        "training.split: 3 micro-batches cannot be divided equally among 2 replicas of a stage");
  experiment.pipeline.stage_replicas = {4};  // one stage
  experiment.pipeline.micro_batches = 4;
  const auto single = settle_split(experiment, bench.plan, nullptr);
  REQUIRE(single.ok());
  CHECK(single->pipeline.cuts.empty());
  CHECK(split_text(*single, bench.plan) ==
        "1 stage: conv1 to fc2 on 4 devices; 1f1b, 4 micro-batches of 3 samples");
}

TEST_CASE("a worker whose stages have replicas trains as one on the whole network, up to rounding") {
  const SplitBench bench;
  Experiment experiment = staged(4);
  experiment.pipeline.micro_batches = 4;
  Experiment whole = experiment;
  whole.training.devices.clear();
  const auto expected = bench.trained(whole, 4);
  for (const std::vector<int>& replicas : {std::vector<int>{2, 1, 1}, {4}, {1, 2, 1}, {2, 2}}) {
    experiment.pipeline.stage_replicas = replicas;
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
      experiment.pipeline.schedule = schedule;
      const auto found = bench.trained(*settle_split(experiment, bench.plan, nullptr), 4);
      REQUIRE(found.size() == expected.size());
      double most = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
      CHECK(most < 1e-5);
    }
  }
}

TEST_CASE("four stages on two groups of processors train as the whole network") {
  const SplitBench bench;
  Experiment experiment = staged(4);
  experiment.training.devices = {"cpu:0", "cpu:1", "cpu:0", "cpu:1"};
  experiment.pipeline.micro_batches = 1;  // so that sums have the same order
  REQUIRE(check(experiment).ok());
  Experiment whole = experiment;
  whole.training.devices.clear();
  const auto settled = settle_split(experiment, bench.plan, nullptr);
  REQUIRE(settled.ok());
  CHECK(settled->pipeline.cuts.size() == 3);
  CHECK(bench.trained(*settled, 6) == bench.trained(whole, 6));
  const PipelineRecord record = describe_stages(*settled, bench.plan);
  REQUIRE(record.stages.size() == 4);
  CHECK(record.stages[2].device == "cpu:0");
  experiment.training.split = Split::data;
  CHECK(check(experiment).error().message ==
        "training.devices: cpu:0 occurs twice, which needs training.split = stages or layers; name different "
        "devices");
}

TEST_CASE("auto is data or stages, as the planner decides, and says why") {
  const SplitBench bench;
  Experiment experiment = staged(2);
  experiment.training.split = Split::automatic;
  for (const kernels::Backend* backend : {static_cast<const kernels::Backend*>(nullptr),
                                          static_cast<const kernels::Backend*>(bench.backend.get())}) {
    const auto settled = settle_split(experiment, bench.plan, backend);
    REQUIRE(settled.ok());
    CHECK(settled->training.split != Split::automatic);
    const bool is_data = settled->training.split == Split::data;
    CHECK(settled->pipeline.cuts.empty() == is_data);
    CHECK(settled->why.starts_with("; the planner expects a batch every "));
    CHECK(settled->why.find(is_data ? " ms, with stages every " : " ms, with data every ") !=
          std::string::npos);
  }
  experiment.pipeline.cuts = {6};
  CHECK(settle_split(experiment, bench.plan, nullptr)->why ==
        "; stages, because cuts or replicas of stages are set");
  CHECK(settle_split(staged(2), bench.plan, nullptr)->why.empty());
}

TEST_CASE("the error of an impossible split says what is possible") {
  const SplitBench bench;
  CHECK(bench.why_not(staged(20)) == "training.split: 20 stages are impossible: lenet has " +
                                         std::to_string(bench.plan.layers.size()) +
                                         " layers, so at most as many stages");
  Experiment beyond = staged(2);
  beyond.pipeline.cuts = {40};
  CHECK(bench.why_not(beyond).starts_with("training.split: a stage cannot begin with layer 40: cuts are"));
}

TEST_CASE("a worker in stages trains as one on the whole network") {
  const SplitBench bench;
  for (const char* optimizer : some_of({"sgd", "adamw"})) {
    Experiment experiment = staged(3);
    experiment.optimizer.name = optimizer;
    experiment.pipeline.micro_batches = 1;  // so that sums have the same order
    Experiment whole = experiment;
    whole.training.devices.clear();
    const auto expected = bench.trained(whole, 6);
    Experiment clipped = experiment, whole_clipped = whole;
    clipped.optimizer.clip_norm = whole_clipped.optimizer.clip_norm = 0.1;
    const auto expected_clipped = bench.trained(whole_clipped, 6);
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                PipelineSchedule::layer_wise, PipelineSchedule::pipedream}) {
      experiment.pipeline.schedule = clipped.pipeline.schedule = schedule;
      INFO(optimizer << " " << pipeline_traits(schedule).name);
      CHECK(bench.trained(*settle_split(experiment, bench.plan, nullptr), 6) == expected);
      if (schedule == PipelineSchedule::pipedream) continue;  // which does not clip
      CHECK(bench.trained(*settle_split(clipped, bench.plan, nullptr), 6) == expected_clipped);
    }
  }
}

TEST_CASE("a worker with divided layers trains as one on the whole network, up to rounding") {
  const SplitBench bench;
  Experiment experiment = staged(3);
  experiment.training.split = Split::layers;
  Experiment whole = experiment;
  whole.training.devices.clear();
  const auto settled = settle_split(experiment, bench.plan, nullptr);
  REQUIRE(settled.ok());
  CHECK(split_text(*settled, bench.plan) == "each layer in 3 parts");
  const auto expected = bench.trained(whole, 6), found = bench.trained(*settled, 6);
  float apart = 0, moved = 0;
  const auto first = first_parameters(bench.plan, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    apart = std::max(apart, std::abs(expected[i] - found[i]));
    moved = std::max(moved, std::abs(expected[i] - first[i]));
  }
  CHECK(apart < 1e-4F * moved);
  experiment.training.devices.clear();
  for (int k = 0; k < 900; ++k) experiment.training.devices.push_back("cpu:" + std::to_string(k));
  CHECK(bench.why_not(experiment).starts_with("training.split: "));
}

TEST_CASE("an estimated profile has the bytes of skip connections at every cut that they cross") {
  const models::Plan plan = *models::make_model("resnet8", {3, 32, 32}, 10);
  const PipelineProfile profile = estimated_profile(plan, 2);
  REQUIRE(profile.layers.size() == plan.layers.size());
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    double floats = plan.layers[i].output.size();
    for (std::size_t before = 0; before < i; ++before) {
      const bool skips = std::any_of(plan.layers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     plan.layers.end(), [&](const models::LayerInfo& later) {
                                       return later.from == static_cast<int>(before) ||
                                              later.other == static_cast<int>(before);
                                     });
      if (skips) floats += plan.layers[before].output.size();
    }
    const bool is_read =
        i + 1 == plan.layers.size() || std::any_of(plan.layers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                                   plan.layers.end(), [&](const models::LayerInfo& later) {
                                                     return later.from == static_cast<int>(i) ||
                                                            later.other == static_cast<int>(i);
                                                   });
    REQUIRE(is_read);
    INFO(plan.layers[i].name);
    CHECK(profile.layers[i].activations == floats * 2 * sizeof(float));
    CHECK(profile.layers[i].forward > 0);
    CHECK(profile.layers[i].backward == 2 * profile.layers[i].forward);
  }
}

}  // namespace starling::training
