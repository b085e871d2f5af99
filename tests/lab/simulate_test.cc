#include "lab/simulate/simulate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/seeds.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/experiment/sweep.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

training::Experiment small() {
  training::Experiment experiment;
  experiment.model.name = "softmax";
  experiment.data.source = "glyphs";
  experiment.peers = 4;
  experiment.training.workers = 2;
  experiment.end.epochs = 0.1;
  return experiment;
}

// `series` receives the lines of metrics.jsonl.
training::Summary run(const training::Experiment& experiment, unsigned threads = 2,
                      std::vector<training::Json>* series = nullptr) {
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  SimulateOptions options;
  options.threads = threads;
  auto summary = simulate(experiment, options, *folder);
  if (!summary) FAIL(summary.error().message);
  for (const char* name : {"summary.json", "metrics.jsonl", "experiment.toml", "model.safetensors"}) {
    REQUIRE(std::filesystem::file_size(folder->file(name)) > 0);
  }
  if (series != nullptr) {
    std::ifstream file(folder->file("metrics.jsonl"));
    for (std::string line; std::getline(file, line);) series->push_back(training::Json::parse(line));
  }
  return *summary;
}

}  // namespace

TEST_CASE("the same seed gives the same result to the last digit, on any number of threads") {
  const auto first = run(small(), 1);
  const auto again = run(small(), 1);
  const auto threaded = run(small(), 3);
  REQUIRE(first.trace_hash.has_value());
  for (const auto& other : {again, threaded}) {
    REQUIRE(other.trace_hash == first.trace_hash);
    REQUIRE(other.accuracy == first.accuracy);
    REQUIRE(other.loss == first.loss);
    REQUIRE(other.consensus_distance == first.consensus_distance);
  }
  auto other_seed = small();
  other_seed.seed = 2;
  REQUIRE(run(other_seed).trace_hash != first.trace_hash);
}

TEST_CASE("a run consumes the samples that were asked for, and at most a batch of each worker more") {
  for (const auto rule : {Rule::pairwise, Rule::push_sum, Rule::d_psgd, Rule::ssp}) {
    for (const double slow : {1.0, 10.0}) {
      auto experiment = small();
      experiment.gossip.rule = rule;
      experiment.training.workers = 1;
      experiment.faults = {{.peer = 1, .factor = slow}};
      CAPTURE(traits(rule).name, slow);
      const auto summary = run(experiment);
      const double most = 4.0 * experiment.training.batch_size / 60'000;
      CHECK(summary.epochs >= 0.1);
      CHECK(summary.epochs <= 0.1 + most);
    }
  }
}

TEST_CASE("a learning-rate schedule changes the run, which is the same on any number of threads") {
  auto experiment = small();
  const auto constant = run(experiment);
  experiment.schedule.name = "cosine";
  experiment.schedule.warmup = {0.02};
  const auto first = run(experiment, 1);
  REQUIRE(run(experiment, 2).trace_hash == first.trace_hash);
  REQUIRE(first.trace_hash != constant.trace_hash);
  REQUIRE(first.samples == constant.samples);
}

TEST_CASE("cropped and flipped images are the same on any number of threads") {
  auto experiment = small();
  const auto plain = run(experiment);
  experiment.training.crop = 2;
  experiment.training.flip = true;
  const auto first = run(experiment, 1);
  REQUIRE(run(experiment, 3).trace_hash == first.trace_hash);
  REQUIRE(first.trace_hash != plain.trace_hash);
}

TEST_CASE("a slow peer and a late joiner use the learning rate of the swarm's progress") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.end.epochs = 0.5;
  experiment.schedule.name = "cosine";
  experiment.schedule.warmup = {0.05};
  experiment.optimizer.learning_rate = 0.08;
  experiment.faults = {{.peer = 1, .factor = 8},
                       {.peer = 3, .kind = training::Fault::Kind::join, .from = std::chrono::seconds(2)}};
  std::vector<training::Json> series;
  const auto summary = run(experiment, 2, &series);
  REQUIRE(summary.per_peer[1].steps * 5 < summary.per_peer[0].steps);
  REQUIRE(summary.per_peer[3].steps * 5 < summary.per_peer[0].steps * 4);

  const auto schedule = *training::make_schedule(experiment, 60'000);
  const auto rate_at = [&](double samples) {
    return 0.08 * training::rate_factor(schedule, std::max(0.0, samples) / 60'000);
  };
  std::map<std::string, int> seen;
  std::vector<training::Json> look;  // the peers' lines, then that of the mean
  for (const auto& line : series) {
    look.push_back(line);
    if (line.at("peer") != "mean") continue;
    const double samples = line.at("samples");
    for (const auto& of_peer : look) {
      if (of_peer.at("learning_rate").is_null()) continue;
      const std::string peer = of_peer.at("peer");
      const double rate = of_peer.at("learning_rate");
      ++seen[peer];
      // The rate is as old as the peer's latest step, and news of others' steps is delayed. The sum is about
      // the 40 steps that the swarm makes in 8 x 20 ms and between two rumors.
      double low = 1, high = 0;
      for (double late = -64; late <= 64 * 40; late += 64) {
        low = std::min(low, rate_at(samples - late));
        high = std::max(high, rate_at(samples - late));
      }
      INFO(peer << " at " << samples << " samples: " << rate << ", not in " << low << " to " << high);
      REQUIRE(rate >= low - 1e-12);
      REQUIRE(rate <= high + 1e-12);
    }
    look.clear();
  }
  for (const char* peer : {"p0", "p1", "p2", "p3"}) REQUIRE(seen[peer] >= 4);
}

TEST_CASE("with a warm-up in steps a late joiner warms up as the others did") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.optimizer.learning_rate = 0.08;
  experiment.schedule.warmup = {40, training::Warmup::Unit::steps};
  experiment.end.epochs = 0.3;
  experiment.looks = 60;
  experiment.faults = {
      {.peer = 3, .kind = training::Fault::Kind::join, .from = std::chrono::milliseconds(700)}};
  std::vector<training::Json> series;
  run(experiment, 2, &series);
  double joiner_before = -1;
  for (const auto& line : series) {
    if (line.at("peer") == "mean" || line.at("learning_rate").is_null()) continue;
    const std::string peer = line.at("peer");
    const double steps = line.at("steps"), rate = line.at("learning_rate");
    INFO(peer << " after " << steps << " steps");
    REQUIRE(std::abs(rate - 0.08 * std::min(1.0, steps / 40)) < 1e-12);
    if (peer == "p3" && joiner_before < 0) joiner_before = steps;
  }
  CHECK(joiner_before > 0);
  CHECK(joiner_before < 20);
}

namespace {

// The smoothed loss of a peer that copies a trained model and makes its first 40 steps with AdamW, alone.
double loss_of_newcomer(const training::Warmup& warmup) {
  training::Experiment experiment;
  experiment.model.name = "mlp";
  experiment.peers = 2;
  experiment.looks = 300;
  experiment.gossip.rule = Rule::none;
  experiment.training.batch_size = 16;
  experiment.optimizer.name = "adamw";
  experiment.optimizer.learning_rate = 0.005;
  experiment.schedule.warmup = warmup;
  experiment.end.steps = 700;
  experiment.faults = {{.peer = 1, .kind = training::Fault::Kind::join, .from = std::chrono::seconds(13)}};
  std::vector<training::Json> series;
  run(experiment, 2, &series);
  for (const auto& line : series) {
    if (line.at("peer") == "p1" && line.at("steps") >= 40) return line.at("loss");
  }
  FAIL("the peer has not made 40 steps");
  return 0;
}

}  // namespace

TEST_CASE("the loss of a late joiner with AdamW does not jump, because its rate rises", "[figures]") {
  const double rising = loss_of_newcomer({});
  const double at_once = loss_of_newcomer({1, training::Warmup::Unit::steps});  // warmed up by the schedule
  CAPTURE(rising, at_once);
  CHECK(rising < 0.8 * at_once);
}

TEST_CASE("noloco with bf16 every 50 steps sends at most a fiftieth of what all-reduce does") {
  training::Experiment experiment = small();
  experiment.training.workers = 1;
  experiment.looks = 1;
  experiment.end.epochs.reset();
  experiment.end.steps = 1000;
  experiment.gossip.rule = Rule::noloco;
  experiment.gossip.payload = Payload::bf16;
  const auto thin = run(experiment);
  experiment.gossip.rule = Rule::all_reduce;
  experiment.gossip.payload = Payload::f32;
  const auto thick = run(experiment);
  CHECK(thin.samples == thick.samples);
  CHECK(50 * thin.bytes_sent <= thick.bytes_sent);
}

TEST_CASE("replicas of peers that exchange are far closer than those of isolated peers") {
  auto experiment = small();
  experiment.gossip.every = *parse_pace("2 steps");
  const auto together = run(experiment);
  experiment.gossip.rule = Rule::none;
  const auto alone = run(experiment);
  REQUIRE(alone.exchanges.completed == 0);
  REQUIRE(together.exchanges.completed > 0);
  REQUIRE(*alone.consensus_distance > 5 * *together.consensus_distance);
  REQUIRE(*together.consensus_distance <= *together.consensus_distance_before_settling);
}

TEST_CASE("the distance before settling is that of peers that never exchange, to the last digit") {
  auto experiment = small();
  experiment.end.epochs.reset();
  experiment.end.steps = 12;
  experiment.gossip.every = *parse_pace("1000 steps");
  experiment.faults = {{.peer = 1, .factor = 1.37}};
  experiment.gossip.rule = Rule::none;
  const auto alone = run(experiment);
  for (const Rule rule : {Rule::pairwise, Rule::noloco, Rule::clipped, Rule::choco, Rule::d_psgd}) {
    experiment.gossip.rule = rule;
    const auto settled = run(experiment);
    CAPTURE(traits(rule).name);
    CHECK(*settled.consensus_distance_before_settling == *alone.consensus_distance_before_settling);
    CHECK((rule == Rule::d_psgd || *settled.consensus_distance < *alone.consensus_distance));
  }
}

TEST_CASE("poison is rejected and counted by reason, until no peer exchanges with its sender") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.gossip.every = *parse_pace("2 steps");
  for (const auto& [poison, reason] :
       {std::pair{"nan", "not_finite"}, {"inf", "not_finite"}, {"huge", "too_large"}}) {
    INFO(poison);
    experiment.faults = {{.peer = 3,
                          .kind = training::Fault::Kind::poison,
                          .from = std::chrono::milliseconds(200),
                          .poison = poison}};
    const auto summary = run(experiment);
    REQUIRE(summary.exchanges.refused_chunks.contains(reason));
    REQUIRE(summary.exchanges.refused_chunks.at(reason) >= 3);
    REQUIRE(*summary.accuracy_min > 0.5);
  }
  experiment.faults.clear();
  REQUIRE(run(experiment).exchanges.refused_chunks.empty());
}

TEST_CASE("the others fail if they cannot copy the only parameters") {
  auto experiment = small();
  experiment.start = training::Begin::copy;
  experiment.faults = {{.peer = 0, .kind = training::Fault::Kind::poison, .poison = "nan"}};
  const auto summary = run(experiment);
  REQUIRE(summary.per_peer[0].state == "finished");
  REQUIRE(summary.per_peer[0].samples == summary.samples);
  REQUIRE(summary.per_peer[1].state == "crashed");
  REQUIRE(summary.per_peer[1].samples == 0);
}

TEST_CASE("a poisoned peer whose values cannot be rejected harms the others with pairwise averaging") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.gossip.every = *parse_pace("2 steps");
  const auto honest = run(experiment);
  experiment.faults = {{.peer = 3,
                        .kind = training::Fault::Kind::poison,
                        .from = std::chrono::milliseconds(200),
                        .poison = "sign-flip"}};
  const auto lied = run(experiment);
  REQUIRE(lied.trace_hash != honest.trace_hash);
  REQUIRE(*lied.loss > *honest.loss);
}

TEST_CASE("a peer that crashes or leaves at the time 0 is gone, and may return") {
  for (const char* rule : {"pairwise", "d-psgd", "parameter-server"}) {
    auto experiment = small();
    experiment.gossip.rule = *rule_named(rule);
    for (const auto kind : {training::Fault::Kind::crash, training::Fault::Kind::leave}) {
      CAPTURE(rule, static_cast<int>(kind));
      experiment.faults = {{.peer = 1, .kind = kind}};
      const auto gone = run(experiment).per_peer[1];
      REQUIRE(gone.state == (kind == training::Fault::Kind::crash ? "crashed" : "left"));
      REQUIRE(gone.samples == 0);
      experiment.faults[0].back_after = std::chrono::milliseconds(50);
      const auto back = run(experiment).per_peer[1];
      REQUIRE(back.state == "finished");
      REQUIRE(back.samples > 0);
    }
  }
}

TEST_CASE("a pause from the time 0 costs a peer as many steps as a later one") {
  for (const char* rule : {"pairwise", "noloco", "parameter-server"}) {
    CAPTURE(rule);
    auto experiment = small();
    experiment.gossip.rule = *rule_named(rule);
    experiment.training.workers = 1;
    experiment.training.pace = std::chrono::milliseconds(10);
    experiment.end.epochs.reset();
    experiment.end.seconds = std::chrono::seconds(2);
    experiment.faults = {
        {.peer = 1, .kind = training::Fault::Kind::pause, .to = std::chrono::milliseconds(500)}};
    const auto summary = run(experiment);
    const auto steps = [&](std::size_t peer) { return static_cast<double>(summary.per_peer[peer].steps); };
    CHECK(std::abs(steps(0) - steps(1) - 50) <= 3);
    CHECK(summary.seconds <= 2.05);
  }
}

TEST_CASE("a peer with poor links exchanges less, and the others finish") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.gossip.every = *parse_pace("2 steps");
  const auto fine = run(experiment);
  experiment.faults = {{.peer = 3,
                        .kind = training::Fault::Kind::link,
                        .link = {.latency = std::chrono::milliseconds(50), .bandwidth = 1e6, .drop = 0.05}}};
  const auto poor = run(experiment);
  REQUIRE(poor.per_peer[3].exchanges < fine.per_peer[3].exchanges / 2);
  REQUIRE(poor.per_peer[3].exchanges > 0);
  for (const auto& peer : poor.per_peer) REQUIRE(peer.state == "finished");
}

TEST_CASE("the network card of a star's hub limits it, unless it is unlimited", "[figures]") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.peers = 8;
  experiment.gossip.topology = "star";
  experiment.gossip.every = *parse_pace("always");
  experiment.network.bandwidth = 20e6;
  const auto exchanges = [&](std::optional<double> port) {
    experiment.network.port = port;
    return run(experiment).exchanges.completed;
  };
  const auto shared = exchanges(std::nullopt);
  CHECK(exchanges(20e6) == shared);
  CHECK(2 * exchanges(training::kUnlimited) > 3 * shared);
  CHECK(exchanges(10e6) < shared);
}

TEST_CASE("peers that crash and leave by churn return and finish, and a replay is the same") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.end.epochs = 0.6;
  experiment.faults = {
      {.peer = training::Fault::kAll,
       .kind = training::Fault::Kind::churn,
       .churn = {
           .crashes_per_minute = 20, .leaves_per_minute = 20, .back_after = std::chrono::milliseconds(300)}}};
  const auto summary = run(experiment);
  CHECK(run(experiment).trace_hash == summary.trace_hash);
  CHECK(summary.per_peer[0].state == "finished");  // the spared peer
  CHECK(*summary.accuracy > 0.5);
  CHECK(summary.samples >= 36'000);
  for (std::size_t i = 1; i < 4; ++i) CHECK(summary.per_peer[i].steps < summary.per_peer[0].steps);

  experiment.faults = {{.peer = 2,
                        .kind = training::Fault::Kind::crash,
                        .from = std::chrono::milliseconds(500),
                        .back_after = std::chrono::milliseconds(500)}};
  const auto once = run(experiment);
  for (const auto& peer : once.per_peer) CHECK(peer.state == "finished");
  CHECK(once.per_peer[2].steps > once.per_peer[0].steps / 2);
  CHECK(once.per_peer[2].steps < once.per_peer[0].steps);
}

TEST_CASE("pauses and a peer's own pace and workers determine its number of steps") {
  auto experiment = small();
  experiment.training.workers = 1;
  experiment.end.epochs = 1;
  experiment.faults = {{.peer = 1,
                        .kind = training::Fault::Kind::pause,
                        .every = std::chrono::milliseconds(500),
                        .length = std::chrono::milliseconds(250)}};
  experiment.own = {{2, {{"training.pace", "40ms"}}}, {3, {{"training.workers", "2"}}}};
  const auto summary = run(experiment);
  const auto steps = [&](std::size_t i) { return static_cast<double>(summary.per_peer[i].steps); };
  CHECK(steps(1) / steps(0) == Approx(0.5).margin(0.1));
  CHECK(steps(2) / steps(0) == Approx(0.5).margin(0.05));
  CHECK(steps(3) / steps(0) == Approx(2).margin(0.1));
}

TEST_CASE("every ready experiment runs to its end, shortened and with little data", "[figures]") {
  for (const auto& entry : std::filesystem::directory_iterator(STARLING_SOURCE_DIR "/experiments")) {
    INFO(entry.path());
    std::vector<training::Experiment> experiments;
    const auto sweep =
        training::read_sweep(entry.path(), [](const char*) -> const char* { return nullptr; }, {});
    if (sweep) {
      experiments = {sweep->points.back().experiment};
      if (all_seeds()) experiments.push_back(sweep->points.front().experiment);
    } else {
      REQUIRE(training::read_file(experiments.emplace_back(), entry.path()).ok());
    }
    for (training::Experiment& experiment : experiments) {
      experiment.model.name = training::has_stages(experiment) ? "mlp" : "softmax";
      experiment.data.source = "glyphs";
      experiment.end.epochs = 0.2;
      experiment.end.steps.reset();
      experiment.end.target_accuracy.reset();
      experiment.end.target_loss.reset();
      experiment.looks.reset();
      CHECK(run(experiment).samples >= 12'000);
    }
  }
}

TEST_CASE("an epoch counts the samples of failed and departed peers") {
  auto experiment = small();
  experiment.end.epochs = 0.3;
  training::Fault crash;
  crash.peer = 0;
  crash.kind = training::Fault::Kind::crash;
  crash.from = std::chrono::milliseconds(300);
  training::Fault leave;
  leave.peer = 2;
  leave.kind = training::Fault::Kind::leave;
  leave.from = std::chrono::milliseconds(400);
  training::Fault join;
  join.peer = 3;
  join.kind = training::Fault::Kind::join;
  join.from = std::chrono::milliseconds(200);
  experiment.faults = {crash, leave, join};
  const auto summary = run(experiment);
  REQUIRE(summary.per_peer[0].state == "crashed");
  REQUIRE(summary.per_peer[1].state == "finished");
  REQUIRE(summary.per_peer[2].state == "left");
  REQUIRE(summary.per_peer[3].state == "finished");
  REQUIRE(summary.per_peer[0].samples > 0);
  REQUIRE(summary.per_peer[3].samples > 0);
  REQUIRE(!summary.per_peer[0].accuracy.has_value());
  const double goal = 0.3 * 60000;
  REQUIRE(static_cast<double>(summary.samples) >= goal);
  REQUIRE(static_cast<double>(summary.samples) < 1.25 * goal);
}

TEST_CASE("reaching the target accuracy ends a simulated run") {
  auto experiment = small();
  experiment.end.epochs = 5;
  experiment.end.target_accuracy = 0.6;
  const auto summary = run(experiment);
  REQUIRE(summary.seconds_to_target.has_value());
  REQUIRE(*summary.seconds_to_target > 0);
  REQUIRE(summary.samples < 60000);
}

TEST_CASE("reaching the target loss ends a simulated run, by gossip or without") {
  for (const Rule rule : {Rule::pairwise, Rule::diloco}) {
    auto experiment = small();
    experiment.training.workers = 1;
    experiment.gossip.rule = rule;
    experiment.end.epochs = 5;
    experiment.end.target_loss = rule == Rule::diloco ? 1.6 : 1.2;
    const auto summary = run(experiment);
    REQUIRE(summary.seconds_to_target.has_value());
    CHECK(*summary.seconds_to_target > 0);
    CHECK(summary.samples < 60000);
  }
}

TEST_CASE("an interrupted simulation ends in order and writes its results") {
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  auto experiment = small();
  experiment.end.epochs = 1000;
  SimulateOptions options;
  int asked = 0;
  options.interrupted = [&asked] { return ++asked > 20; };
  const auto summary = simulate(experiment, options, *folder);
  REQUIRE(summary.ok());
  REQUIRE(summary->samples < 60000);
  REQUIRE(summary->interrupted);
  REQUIRE(summary->epochs_asked == 1000);
  REQUIRE(summary->epochs > 0);
  REQUIRE(summary->epochs < 1);
  for (const auto& peer : summary->per_peer) REQUIRE(peer.state == "stopped");
  const auto text = training::read_text(folder->file("summary.json"), 1 << 20);
  REQUIRE(text.ok());
  const auto written = training::parse_summary(*text);
  REQUIRE(written.ok());
  REQUIRE(training::to_json(*written) == training::to_json(*summary));
}

TEST_CASE("a slow peer does its share more slowly and does not delay others") {
  auto experiment = small();
  experiment.training.workers = 1;
  training::Fault slow;
  slow.peer = 1;
  slow.factor = 10;
  experiment.faults = {slow};
  const auto summary = run(experiment);
  REQUIRE(summary.per_peer[1].slow == 10);
  REQUIRE(summary.per_peer[1].steps * 5 < summary.per_peer[0].steps);
  REQUIRE(summary.per_peer[1].state == "finished");
}

TEST_CASE("random slowness of steps is a function of the seed, for all peers or for one", "[figures]") {
  auto experiment = small();
  const auto steady = run(experiment);
  training::Fault slow;
  slow.peer = training::Fault::kAll;
  slow.factor = *training::Slowness::parse("pareto:alpha=1");
  experiment.faults = {slow};
  const auto by_chance = run(experiment);
  CHECK(by_chance.seconds > 1.5 * steady.seconds);  // half of its steps take twice as long
  CHECK(by_chance.per_peer[0].slow == 2);
  CHECK(run(experiment).trace_hash == by_chance.trace_hash);
  CHECK(run(experiment).trace_hash != steady.trace_hash);

  slow.peer = 0;
  slow.factor = *training::Slowness::parse("log-normal:sigma=0.5");
  experiment.faults = {slow, slow};
  const auto one = run(experiment);
  CHECK(one.per_peer[1].slow == 1);
  CHECK(one.trace_hash != steady.trace_hash);
}

TEST_CASE("a simulation with an unknown name is an error") {
  const training::TemporaryFolder scratch;
  auto experiment = small();
  experiment.model.name = "nonesuch";
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  const auto summary = simulate(experiment, {}, *folder);
  REQUIRE(!summary);
  REQUIRE(summary.error().message.find("nonesuch") != std::string::npos);
}

}  // namespace starling::lab
