// Settings without effect change nothing: not an event, not a byte.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/lab/simulated_run.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

// Two values of each setting that does not always have an effect.
struct TwoValues {
  const char* key;
  const char* one;
  const char* other;
};
constexpr TwoValues kSettings[] = {
    {"training.beta1", "0.9", "0.8"},
    {"training.beta2", "0.99", "0.95"},
    {"training.epsilon", "1e-8", "1e-3"},
    {"training.step_epochs", "1", "2"},
    {"training.step_factor", "0.1", "0.5"},
    {"training.final_rate", "0", "0.5"},
    {"training.average_every", "8", "3"},
    {"gossip.topology", "full", "ring"},
    {"gossip.partners", "uniform", "turns"},
    {"gossip.every", "4 steps", "2 steps"},
    {"gossip.payload", "f32", "bf16"},
    {"gossip.top_k", "0.01", "0.5"},
    {"gossip.weights", "equal", "work"},
    {"gossip.outer_rate", "0.7", "0.5"},
    {"gossip.outer_momentum", "0.9", "0"},
    {"gossip.fragments", "1", "4"},
    {"gossip.consensus_rate", "0.1", "1"},
    {"gossip.clip", "3", "1"},
    {"gossip.servers", "1", "2"},
    {"gossip.racks", "0", "1"},
    {"gossip.server_rate", "0.5", "1"},
    {"gossip.staleness", "4", "1"},
    {"gossip.chunk", "64KiB", "16KiB"},
    {"gossip.window", "4", "1"},
};

training::Experiment experiment_with(const std::string& data, Rule rule, const TwoValues& setting,
                                     const char* value) {
  training::Experiment experiment;
  experiment.data.source = data;
  experiment.model.name = "softmax";
  experiment.peers = 4;
  experiment.training.batch_size = 8;
  experiment.end.steps = 12;
  experiment.looks = 0;
  experiment.gossip.rule = rule;
  const training::Setting* found = training::find_setting(setting.key);
  REQUIRE(found != nullptr);
  const Status set = found->set(experiment, value);
  INFO(setting.key << " = " << value << ": " << (set.ok() ? "" : set.error().message));
  REQUIRE(set.ok());
  return experiment;
}

}  // namespace

TEST_CASE("a setting without effect changes no event of a simulation, with every rule") {
  const training::TemporaryFolder folder;
  std::string table = "u,v,kind\n";
  for (int k = 0; k < 300; ++k)
    table += std::to_string(k % 7) + "," + std::to_string(k % 11) + "," + std::to_string(k % 3) + "\n";
  const std::string data = folder.write("table.csv", table);
  for (const RuleTraits& rule : kRules) {
    const auto number = static_cast<Rule>(&rule - kRules.data());
    for (const TwoValues& setting : kSettings) {
      const auto one = experiment_with(data, number, setting, setting.one),
                 other = experiment_with(data, number, setting, setting.other);
      CAPTURE(rule.name, setting.key);
      CHECK(training::has_effect(one, setting.key) == training::has_effect(other, setting.key));
      if (training::has_effect(one, setting.key)) continue;
      CHECK(training::shared_settings(one) == training::shared_settings(other));
      if (!training::check(one).ok() || !training::check(other).ok()) continue;  // refused: not in silence
      CHECK(simulated(one).summary.trace_hash == simulated(other).summary.trace_hash);
    }
  }
}

}  // namespace starling::lab
