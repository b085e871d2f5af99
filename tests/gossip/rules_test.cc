#include "gossip/rules.h"

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

namespace {

Result<RunRules> rules_with(std::vector<wire::ManifestEntry> settings) {
  wire::Manifest manifest;
  manifest.settings = std::move(settings);
  return rules_from(manifest, 60000);
}

}  // namespace

TEST_CASE("the defaults are pairwise exchanges on the exponential graph every 8 steps, without an end") {
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

TEST_CASE("every setting of the run that concerns the core is read; others are skipped") {
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

TEST_CASE("every rule is selected by its name and has its own default pace") {
  const auto pace_of = [](const std::string& rule) { return rules_with({{"gossip.rule", rule}})->pace; };
  for (const std::string rule : {"pairwise", "choco", "clipped"}) {
    REQUIRE(pace_of(rule).kind == Pace::Kind::steps);
    REQUIRE(pace_of(rule).steps == 8);
  }
  REQUIRE(pace_of("d-psgd").steps == 1);
  REQUIRE(pace_of("noloco").steps == 50);
  REQUIRE(pace_of("push-sum").kind == Pace::Kind::time);
  REQUIRE(pace_of("push-sum").time == 200ms);
  // An explicit pace overrides the rule's default, in any order of the settings.
  REQUIRE(rules_with({{"gossip.every", "3 steps"}, {"gossip.rule", "noloco"}})->pace.steps == 3);
  REQUIRE(rules_with({{"gossip.rule", "push-sum"}, {"gossip.every", "1s"}})->pace.time == 1s);
  REQUIRE(rules_with({{"gossip.weights", "work"}})->shares == Shares::work);
  REQUIRE(rules_with({{"gossip.weights", "age"}})->shares == Shares::age);
  REQUIRE(rules_with({{"gossip.rule", "noloco"}, {"gossip.fragments", "5"}})->fragments == 5);
}

TEST_CASE("push-sum rejects a pace in steps, and d-psgd rejects a directed topology") {
  const auto paced = rules_with({{"gossip.rule", "push-sum"}, {"gossip.every", "8 steps"}});
  REQUIRE_FALSE(paced);
  REQUIRE(paced.error().message.find("gossip.every") != std::string::npos);
  for (const std::string topology : {"directed-exponential", "one-peer-exponential"}) {
    const auto directed = rules_with({{"gossip.rule", "d-psgd"}, {"gossip.topology", topology}});
    REQUIRE_FALSE(directed);
    REQUIRE(directed.error().message.find("gossip.topology") != std::string::npos);
    REQUIRE(rules_with({{"gossip.rule", "push-sum"}, {"gossip.topology", topology}}));
  }
}

TEST_CASE("fragments must divide the steps of the pace") {
  const auto rules = rules_with({{"gossip.rule", "noloco"}, {"gossip.fragments", "3"}});
  REQUIRE_FALSE(rules);
  REQUIRE(rules.error().message.find("gossip.fragments: 3 fragments cannot take turns in 50 steps") !=
          std::string::npos);
  REQUIRE(rules_with({{"gossip.rule", "noloco"}, {"gossip.fragments", "3"}, {"gossip.every", "1s"}}));
}

TEST_CASE("an invalid setting is an error that names its key") {
  const std::vector<wire::ManifestEntry> bad = {
      {"gossip.topology", "moebius"}, {"gossip.rule", "shout"},         {"gossip.every", ""},
      {"gossip.every", "0 steps"},    {"gossip.every", "-1 steps"},     {"gossip.every", "steps"},
      {"gossip.every", "0s"},         {"gossip.every", "sometimes"},    {"training.epochs", "-1"},
      {"training.epochs", "nan"},     {"training.epochs", "1e300"},     {"training.epochs", "three"},
      {"gossip.weights", "fair"},     {"training.steps", "-5"},         {"training.steps", "1.5"},
      {"training.seconds", "-1"},     {"training.seconds", "for ever"}, {"gossip.fragments", "0"}};
  for (const auto& setting : bad) {
    const auto rules = rules_with({setting});
    CAPTURE(setting.key, setting.value);
    REQUIRE_FALSE(rules);
    CAPTURE(rules.error().message);
    REQUIRE(rules.error().message.find(setting.key) != std::string::npos);
  }
}

}  // namespace starling::gossip
