#include "gossip/rules.h"

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

namespace {

Result<RunRules> rules_with(std::vector<wire::Setting> settings) {
  wire::Manifest manifest;
  manifest.settings = std::move(settings);
  return rules_from(manifest, 60000);
}

}  // namespace

TEST_CASE(
    "a run that says nothing exchanges pairwise on the exponential graph every 8 steps, without an end") {
  const auto rules = rules_with({});
  REQUIRE(rules);
  REQUIRE(rules->topology.name() == "exponential");
  REQUIRE(rules->rule == Rule::pairwise);
  REQUIRE(rules->pace.kind == Pace::Kind::steps);
  REQUIRE(rules->pace.steps == 8);
  REQUIRE_FALSE(rules->end.swarm_samples);
  REQUIRE_FALSE(rules->end.steps);
  REQUIRE_FALSE(rules->end.time);
}

TEST_CASE("every setting of the run that concerns the core is read, others are skipped") {
  REQUIRE(rules_with({{"gossip.topology", "ring"}})->topology.name() == "ring");
  REQUIRE(rules_with({{"gossip.rule", "none"}})->rule == Rule::none);
  REQUIRE(rules_with({{"gossip.rule", "pairwise"}})->rule == Rule::pairwise);
  REQUIRE(rules_with({{"gossip.every", "1 step"}})->pace.steps == 1);
  REQUIRE(rules_with({{"gossip.every", "16 steps"}})->pace.steps == 16);
  REQUIRE(rules_with({{"gossip.every", "200ms"}})->pace.kind == Pace::Kind::time);
  REQUIRE(rules_with({{"gossip.every", "200ms"}})->pace.time == 200ms);
  REQUIRE(rules_with({{"gossip.every", "always"}})->pace.kind == Pace::Kind::always);
  REQUIRE(rules_with({{"training.epochs", "3"}})->end.swarm_samples == 180000);
  REQUIRE(rules_with({{"training.epochs", "0.25"}})->end.swarm_samples == 15000);
  REQUIRE(rules_with({{"training.steps", "500"}})->end.steps == 500);
  REQUIRE(rules_with({{"training.seconds", "2.5"}})->end.time == 2500ms);
  REQUIRE(rules_with({{"training.seconds", "90s"}})->end.time == 90s);
  REQUIRE(rules_with({{"training.batch_size", "64"}, {"", ""}, {"unheard.of", "whatever"}}));
}

TEST_CASE("a setting that cannot be followed is an error that names its key") {
  const std::vector<wire::Setting> bad = {
      {"gossip.topology", "moebius"},  {"gossip.rule", "shout"},      {"gossip.every", ""},
      {"gossip.every", "0 steps"},     {"gossip.every", "-1 steps"},  {"gossip.every", "steps"},
      {"gossip.every", "0s"},          {"gossip.every", "sometimes"}, {"training.epochs", "-1"},
      {"training.epochs", "nan"},      {"training.epochs", "1e300"},  {"training.epochs", "three"},
      {"training.steps", "-5"},        {"training.steps", "1.5"},     {"training.seconds", "-1"},
      {"training.seconds", "for ever"}};
  for (const auto& setting : bad) {
    const auto rules = rules_with({setting});
    CAPTURE(setting.key, setting.value);
    REQUIRE_FALSE(rules);
    CAPTURE(rules.error().message);
    REQUIRE(rules.error().message.find(setting.key) != std::string::npos);
  }
}

}  // namespace starling::gossip
