// Random experiments, and experiments from the text of a file, for the tests of settings and files.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::training {

inline Duration random_time(Random& random) {
  // Every magnitude, down to single nanoseconds.
  const auto bits = random.below(52);
  return std::min(Duration(static_cast<std::int64_t>(random.below(std::uint64_t{1} << bits) + 1)),
                  kLongestTime);
}

inline std::string random_text(Random& random) {
  static const std::vector<std::string> kPieces = {"a", "Z", "0", " ", "\"", "\\", "'",
                                                   "#", "=", "[", "é", "鳥", "/",  "."};
  std::string text;
  for (std::uint64_t i = 0; i <= random.below(12); ++i) text += kPieces[random.below(kPieces.size())];
  return text;
}

// In canonical form.
inline std::string random_layers(Random& random) {
  static const std::vector<std::string> kPieces = {
      "\"relu\"", "\"batch norm\"",
      "{ type = \"convolution\", channels = 8, kernel = 3, padding = 1, bias = false }",
      "{ type = \"dropout\", rate = 0.25 }",
      "{ type = \"residual\", layers = [\"gelu\", \"layer norm\"], shortcut = [\"relu\"] }"};
  std::string text = "[";
  for (std::uint64_t i = random.below(6); i > 0; --i) text += kPieces[random.below(kPieces.size())] + ", ";
  return text + "\"linear\"]";
}

inline std::string one_of(Random& random, std::vector<const char*> names) {
  return names[random.below(names.size())];
}

inline void draw_gossip(Random& random, Experiment& e) {
  e.gossip.rule =
      *rule_named(one_of(random, {"pairwise", "push-sum", "d-psgd", "choco", "noloco", "clipped", "none"}));
  e.gossip.payload = *payload_named(one_of(random, {"f32", "bf16", "int8", "top-k"}));
  if (e.gossip.payload == Payload::top_k && !check_rule(e)) e.gossip.payload = Payload::int8;
  e.gossip.top_k = random.uniform(1e-6, 1);
  e.gossip.weights = *find_named<Shares>(kShares, one_of(random, {"equal", "work", "age"}));
  e.gossip.outer_rate = random.uniform(1e-6, 1);
  if (random.chance(0.5)) e.gossip.outer_momentum = random.uniform();
  if (random.chance(0.5)) e.gossip.consensus_rate = random.uniform(1e-6, 1);
  e.gossip.clip = random.uniform(0.1, 100);
  if (random.chance(0.5)) e.gossip.chunk = 4096 + random.below((1 << 20) - 4096);
  if (random.chance(0.5)) e.gossip.window = static_cast<std::uint32_t>(1 + random.below(256));
  e.gossip.topology = random_text(random);
  switch (random.below(4)) {
    case 0:
      if (e.gossip.rule != Rule::push_sum) e.gossip.every = Pace{.steps = 1 + random.below(1'000'000'000)};
      break;
    case 1:
      e.gossip.every = Pace{.kind = Pace::Kind::time, .time = random_time(random)};
      break;
    case 2:
      e.gossip.every = Pace{.kind = Pace::Kind::always};
      break;
    default:
      break;  // the rule's default
  }
}

inline Fault random_fault(Random& random, std::uint32_t peers) {
  Fault fault;
  fault.peer = static_cast<std::uint32_t>(random.below(peers));
  fault.kind = static_cast<Fault::Kind>(random.below(7));
  if (fault.kind == Fault::Kind::slow) {
    const std::vector<std::string> by_chance = {"exponential", "log-normal:sigma=0.7,per=peer",
                                                "pareto:alpha=1.5"};
    fault.factor = random.uniform(1, 1e6);
    if (random.chance(0.5)) fault.factor = *Slowness::parse(by_chance[random.below(by_chance.size())]);
    if (random.chance(0.3)) fault.peer = Fault::kAll;
  }
  if (fault.kind == Fault::Kind::poison) fault.poison = poisons()[random.below(poisons().size())];
  if (fault.kind == Fault::Kind::link) {
    fault.link.drop = random.uniform();
    if (random.chance(0.5)) fault.link.latency = random_time(random);
    if (random.chance(0.5)) fault.link.bandwidth = std::pow(10, random.uniform(0, 15));
  }
  fault.from = random.chance(0.3) ? Duration{0} : random_time(random) / 2;
  if (lasts(fault.kind) && random.chance(0.5)) fault.to = fault.from + random_time(random) / 2 + Duration{1};
  return fault;
}

// Any value that passes check().
inline Experiment random_experiment(Random& random) {
  Experiment e;
  e.name = "run-" + std::to_string(random.below(1000));
  e.seed = random.bits();
  e.peers = static_cast<std::uint32_t>(1 + random.below(100'000));
  e.model.name = random_text(random);
  if (random.chance(0.5)) e.model.layers = random_layers(random);
  if (random.chance(0.3)) e.model.init = random_text(random);
  e.data.source = random_text(random);
  e.data.partition = random_text(random);
  e.training.batch_size = static_cast<std::uint32_t>(1 + random.below(65'536));
  if (random.chance(0.8))
    e.optimizer.learning_rate = random.uniform() * std::pow(10, -static_cast<double>(random.below(12)));
  e.optimizer.momentum = random.uniform();
  e.optimizer.weight_decay = random.chance(0.5) ? 0 : random.uniform();
  e.optimizer.clip_norm = random.chance(0.5) ? 0 : random.uniform(0, 10);
  e.optimizer.nesterov = random.chance(0.5);
  e.training.workers = static_cast<std::uint32_t>(1 + random.below(1024));
  e.training.pace = random.chance(0.5) ? Duration{0} : random_time(random);
  if (random.chance(0.5)) e.end.epochs = random.chance(0.5) ? random.uniform(1e-9, 1e6) : 3;
  if (random.chance(0.5)) e.end.steps = 1 + random.below(1'000'000'000'000);
  if (random.chance(0.5)) e.end.seconds = random_time(random);
  if (random.chance(0.5)) e.end.target_loss = random.uniform(1e-6, 1000);
  if (random.chance(0.5)) e.end.target_accuracy = random.chance(0.2) ? 1 : random.uniform(1e-6, 1);
  e.optimizer.quasi_global_momentum = random.chance(0.5);
  e.optimizer.name = random.chance(0.5) ? "sgd" : "adamw";
  if (!check_optimizer(e)) e.optimizer.nesterov = e.optimizer.quasi_global_momentum = false;
  e.optimizer.beta2 = random.uniform();
  if (random.chance(0.5)) e.optimizer.beta1 = random.uniform();
  if (random.chance(0.5)) e.optimizer.epsilon = random.uniform(1e-30, 1);
  e.schedule.name = one_of(random, {"constant", "cosine", "step"});
  switch (random.below(4)) {
    case 0:
      e.schedule.warmup = {random.uniform(0, 10)};
      break;
    case 1:
      e.schedule.warmup = {static_cast<double>(random.below(1'000'000)), Warmup::Unit::steps};
      break;
    case 2:
      e.schedule.warmup = {static_cast<double>(random.below(std::uint64_t{1} << 59)), Warmup::Unit::tokens};
      break;
    default:
      break;  // none
  }
  if (random.chance(0.5)) e.schedule.step_epochs = random.uniform(1e-6, 100);
  e.schedule.step_factor = random.uniform(1e-6, 1);
  e.schedule.final_rate = random.uniform();
  e.training.crop = static_cast<std::uint32_t>(random.below(1025));
  e.training.flip = random.chance(0.5);
  if (!check_schedule(e)) {
    e.end.steps.reset();
    e.end.epochs = e.schedule.warmup.length + random.uniform(1e-6, 100);
    if (e.schedule.warmup.unit != Warmup::Unit::epochs) e.end.epochs = 10;
  }
  draw_gossip(random, e);
  e.network.latency = random_time(random);
  e.network.bandwidth = random.chance(0.3) ? 1e8 : std::pow(10, random.uniform(0, 15));
  for (std::uint64_t i = random.below(4); i > 0; --i) e.faults.push_back(random_fault(random, e.peers));
  return e;
}

inline Status read_text_of(Experiment& experiment, const std::string& toml) {
  const TemporaryFolder folder;
  return read_file(experiment, folder.write("experiment.toml", toml));
}

inline std::string refusal(const std::string& toml) {
  Experiment experiment;
  const Status status = read_text_of(experiment, toml);
  REQUIRE(!status.ok());
  REQUIRE(experiment == Experiment{});
  return status.error().message;
}

}  // namespace starling::training
