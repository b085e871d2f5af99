#include "training/runs/experiment/check.h"

#include <map>

#include "tests/training/experiments.h"

namespace starling::training {

TEST_CASE("AdamW has its own default learning rate, and rejects settings of SGD") {
  Experiment e;
  CHECK(resolved_learning_rate(e) == 0.05);
  e.optimizer.name = "adamw";
  CHECK(resolved_learning_rate(e) == 0.001);
  REQUIRE(check(e).ok());
  const auto shared = shared_settings(e);
  REQUIRE(std::find(shared.begin(), shared.end(),
                    std::pair<std::string, std::string>("training.learning_rate", "0.001")) != shared.end());
  e.optimizer.learning_rate = 0.01;
  CHECK(resolved_learning_rate(e) == 0.01);
  e.optimizer.nesterov = true;
  CHECK(
      contains(check(e).error().message, "training.nesterov: Nesterov momentum requires the optimizer sgd"));
  e.optimizer.nesterov = false;
  e.optimizer.quasi_global_momentum = true;
  CHECK(contains(check(e).error().message, "training.quasi_global_momentum"));
}

TEST_CASE("the default learning rate of SGD is divided among a peer's workers; a given one is unchanged") {
  Experiment e;
  e.training.workers = 4;
  CHECK(resolved_learning_rate(e) == 0.0125);
  e.optimizer.name = "adamw";
  CHECK(resolved_learning_rate(e) == 0.001);
  e.optimizer.name = "sgd";
  e.optimizer.learning_rate = 0.05;
  CHECK(resolved_learning_rate(e) == 0.05);
}

TEST_CASE("a fault that begins after the end of the run causes a warning") {
  Experiment e;
  CHECK(warning_of_late_faults(e, 1).empty());
  e.faults = {{.kind = Fault::Kind::slow},
              {.peer = 1, .kind = Fault::Kind::crash, .from = std::chrono::seconds(9)}};
  CHECK(warning_of_late_faults(e, 9).empty());
  CHECK(warning_of_late_faults(e, 1.5) ==
        "1 fault has not happened, as the run took 1.5 s: crash begins at 9s");
  e.faults.push_back({.peer = 2, .kind = Fault::Kind::join, .from = std::chrono::seconds(2)});
  CHECK(warning_of_late_faults(e, 1.5) ==
        "2 faults have not happened, as the run took 1.5 s: join begins at 2s");
}

TEST_CASE("many workers with a learning rate that is too high for their number cause a warning") {
  Experiment e;
  for (const std::uint32_t workers : {1U, 2U, 3U, 64U}) {
    e.training.workers = workers;
    CHECK(warning_of_workers(e).empty());  // with the default rate
  }
  e.optimizer.learning_rate = 0.05;
  for (const std::uint32_t workers : {1U, 2U}) {
    e.training.workers = workers;
    CHECK(warning_of_workers(e).empty());
  }
  e.training.workers = 4;
  const std::string warning = warning_of_workers(e);
  CHECK(contains(warning, "4 workers"));
  CHECK(contains(warning, "0.05"));
  CHECK(contains(warning, "default is 0.0125"));
  e.optimizer.momentum = 0;
  CHECK(warning_of_workers(e).empty());
  e.optimizer.momentum = 0.9;
  e.optimizer.name = "adamw";
  CHECK(warning_of_workers(e).empty());
}

TEST_CASE(
    "vertical sync at a rate that is too high for old gradients causes a warning with the rate it needs") {
  Experiment e;
  e.training.devices = {"cpu:0", "cpu:1"};
  e.training.split = Split::stages;
  e.pipeline.schedule = PipelineSchedule::pipedream;
  CHECK(warning_of_vertical_sync(e).empty());
  e.pipeline.vertical_sync = true;
  CHECK(warning_of_vertical_sync(e) ==
        "with vertical_sync gradients are 1 update old in all stages, and at the learning rate 0.05 with "
        "momentum 0.9 the network may not learn; it needs about 0.02");
  e.optimizer.learning_rate = 0.02;
  CHECK(warning_of_vertical_sync(e).empty());
  e.training.devices = {"cpu:0", "cpu:1", "cpu:0", "cpu:1"};
  CHECK(contains(warning_of_vertical_sync(e), "3 updates old"));
  CHECK(contains(warning_of_vertical_sync(e), "needs about 0.00667"));
  e.pipeline.micro_batches = 3;
  CHECK(warning_of_vertical_sync(e).empty());
  e.pipeline.micro_batches = 1;
  e.optimizer.momentum = 0;
  CHECK(warning_of_vertical_sync(e).empty());
  e.optimizer.momentum = 0.9;
  e.pipeline.schedule = PipelineSchedule::gpipe;
  CHECK(warning_of_vertical_sync(e).empty());
}

TEST_CASE("the default pace is the rule's, and a given pace takes precedence") {
  const std::map<std::string, std::string> paces = {
      {"pairwise", "8 steps"}, {"clipped", "8 steps"},    {"choco", "8 steps"},
      {"noloco", "50 steps"},  {"d-psgd", "1 steps"},     {"push-sum", "200ms"},
      {"none", "8 steps"},     {"all-reduce", "1 steps"}, {"diloco", "50 steps"}};
  for (const auto& [rule, pace] : paces) {
    INFO(rule);
    Experiment e;
    e.gossip.rule = *rule_named(rule);
    REQUIRE(check(e).ok());
    REQUIRE(format_pace(resolved_every(e)) == pace);
    CHECK(resolved_outer_momentum(e) == (rule == "diloco" ? 0.9 : rule == "noloco" ? 0.5 : 0));
    e.gossip.every = Pace{.kind = Pace::Kind::always};
    REQUIRE(resolved_every(e) == Pace{.kind = Pace::Kind::always});
  }
}

TEST_CASE("check rejects rules with payloads and paces that they do not support") {
  for (const Rule rule : {Rule::push_sum, Rule::d_psgd, Rule::noloco, Rule::clipped}) {
    Experiment e;
    e.gossip.rule = rule;
    e.gossip.payload = Payload::top_k;
    REQUIRE(contains(check(e).error().message, "takes f32, bf16 or int8, not top-k"));
    e.gossip.payload = Payload::int8;
    REQUIRE(check(e).ok());
  }
  Experiment e;
  e.gossip.rule = Rule::push_sum;
  e.gossip.every = Pace{.steps = 8};
  REQUIRE(contains(check(e).error().message, "gossip.every: the rule push-sum is paced by time"));
  e.gossip.every = Pace{.kind = Pace::Kind::poisson, .time = std::chrono::seconds(1)};
  REQUIRE(check(e).ok());
}

TEST_CASE("check rejects a diloco that is paced by time, has several workers, or fragments that do not fit") {
  Experiment e;
  e.gossip.rule = Rule::diloco;
  e.gossip.payload = Payload::int8;
  e.gossip.fragments = 5;
  REQUIRE(check(e).ok());
  e.gossip.fragments = 4;
  CHECK(
      check(e).error().message ==
      "gossip.fragments: 4 fragments cannot take turns in 50 steps (gossip.every); their number must divide "
      "that of the steps");
  e.gossip.every = Pace{.steps = 2};
  CHECK(check(e).error().message ==
        "gossip.fragments: 4 fragments cannot take turns in 2 steps (gossip.every); there must be a step for "
        "each of them");
  e.gossip.every = Pace{.kind = Pace::Kind::always};
  CHECK(contains(check(e).error().message, "gossip.every: the rule diloco is paced by steps (1 step)"));
  e.gossip.every.reset();
  e.gossip.fragments = 1;
  e.training.workers = 2;
  CHECK(contains(check(e).error().message, "training.workers: diloco has one worker in each peer"));
  e.gossip.rule = Rule::pairwise;  // without outer steps fragments have no effect
  e.gossip.fragments = 3;
  CHECK(check(e).ok());
}

TEST_CASE("check rejects settings that contradict all-reduce, and accepts those that have no effect there") {
  Experiment sound;
  sound.gossip.rule = Rule::all_reduce;
  sound.gossip.topology = "torus";
  sound.gossip.every = Pace{.steps = 3};
  sound.gossip.weights = Shares::work;
  sound.faults = {{.peer = Fault::kAll, .factor = 2}, {.peer = 1, .kind = Fault::Kind::crash}};
  REQUIRE(check(sound).ok());
  const auto refused = [&](const auto& change, const std::string& why) {
    Experiment e = sound;
    change(e);
    const Status status = check(e);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().message, why));
  };
  refused([](Experiment& e) { e.gossip.payload = Payload::bf16; },
          "gossip.payload: the rule all-reduce takes f32, not bf16");
  refused([](Experiment& e) { e.training.workers = 2; },
          "training.workers: all-reduce has one worker in each peer");
  refused([](Experiment& e) { e.optimizer.quasi_global_momentum = true; },
          "training.quasi_global_momentum: all-reduce");
  refused(
      [](Experiment& e) {
        e.training.devices = {"cuda:0", "cuda:1"};
      },
      "training.devices: with all-reduce");
  const auto befalls = [](Fault::Kind kind) {
    return [kind](Experiment& e) {
      e.faults.push_back({.peer = 2, .kind = kind, .from = std::chrono::seconds(1)});
    };
  };
  refused(befalls(Fault::Kind::join), "the fault join of peer 2: all-reduce needs every peer");
  refused(befalls(Fault::Kind::leave), "the fault leave of peer 2: all-reduce needs every peer");
  refused(befalls(Fault::Kind::poison),
          "the fault poison of peer 2: all-reduce has no exchanges of two peers");
}

TEST_CASE("check rejects devices that cannot hold one replica together") {
  Experiment sound;
  sound.training.devices = {"cpu:0", "cpu:1", "cpu:2"};
  sound.training.split = Split::stages;
  REQUIRE(check(sound).ok());
  const auto why = [&](const auto& change) {
    Experiment e = sound;
    change(e);
    const Status status = check(e);
    return status.ok() ? "" : status.error().message;
  };
  CHECK(why([](Experiment& e) { e.training.workers = 2; }) ==
        "training.workers: devices that hold one replica together (training.split) are one worker; set it to "
        "1");
  const auto gpus = [](Experiment& e) { e.training.devices = {"cuda:0", "cuda:1"}; };
  CHECK(why(gpus).empty());
  CHECK(why([](Experiment& e) { e.pipeline.cuts = {3}; }) ==
        "pipeline.cuts: 1 cuts make 2 stages, but training.devices has 3 devices");
  CHECK(why([](Experiment& e) { e.pipeline.cuts = {3, 5}; }).empty());
  CHECK(why([](Experiment& e) {
          e.pipeline.stage_replicas = {2, 1, 1};
        }) == "pipeline.stage_replicas: 4 replicas in all, but training.devices has 3 devices");
  CHECK(why([](Experiment& e) { e.pipeline.stage_replicas = {2, 1}; }).empty());
  CHECK(why([](Experiment& e) {
          e.pipeline.stage_replicas = {2, 1};
          e.pipeline.cuts = {3, 5};
        }) == "pipeline.cuts: 2 cuts make 3 stages, but pipeline.stage_replicas has 2");
  CHECK(why([](Experiment& e) { e.pipeline.micro_batches = 5; }) ==
        "pipeline.micro_batches: a batch of 64 samples cannot be divided into 5 micro-batches of equal size");
  const auto stream = [](Experiment& e) { e.pipeline.schedule = PipelineSchedule::pipedream; };
  CHECK(why([&](Experiment& e) { stream(e), e.pipeline.micro_batches = 5; }).empty());
  CHECK(contains(why([&](Experiment& e) { stream(e), e.optimizer.clip_norm = 1; }),
                 "training.clip_norm: the schedule pipedream updates each stage by itself"));
  CHECK(contains(why([&](Experiment& e) { stream(e), e.optimizer.quasi_global_momentum = true; }),
                 "training.quasi_global_momentum: the schedule pipedream"));
  CHECK(why([](Experiment& e) { e.training.recompute = Recomputation::except_last; }).empty());
  CHECK(contains(why([](Experiment& e) {
                   e.training.split = Split::layers;
                   e.training.recompute = Recomputation::always;
                 }),
                 "training.recompute: divided layers"));
  CHECK(why([](Experiment& e) {
          e.training.devices.clear(), e.training.recompute = Recomputation::except_last;
        }) == "training.recompute: except-last needs stages; set training.devices and training.split");
}

}  // namespace starling::training
