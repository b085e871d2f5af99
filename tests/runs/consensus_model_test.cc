#include "training/runs/experiment/consensus_model.h"

#include "tests/catch.h"

namespace starling::training {
namespace {

using By = ConsensusModel::By;

ConsensusModel of(
    const std::string& rule, void (*change)(Experiment&) = [](Experiment&) {}) {
  Experiment experiment;
  experiment.gossip.rule = *rule_named(rule);
  change(experiment);
  return consensus_model(experiment);
}

TEST_CASE("a rule is predicted by its exchange, round or push, and not at all without an analysis") {
  CHECK(of("pairwise").by == By::exchange);
  CHECK(of("push-sum").by == By::push);
  CHECK(of("none").by == By::nobody);
  CHECK(of("choco").by == By::exchange);
  CHECK(of("choco", [](Experiment& e) { e.gossip.payload = Payload::int8; }).by == By::exchange);
  CHECK(of("choco", [](Experiment& e) { e.gossip.payload = Payload::top_k; }).by == By::unknown);
  CHECK(of("pairwise", [](Experiment& e) { e.gossip.payload = Payload::top_k; }).by == By::unknown);
  CHECK(of("choco", [](Experiment& e) { e.gossip.consensus_rate = 0.5; }).by == By::unknown);
  CHECK(of("pairwise", [](Experiment& e) { e.gossip.weights = Shares::work; }).by == By::unknown);
  const ConsensusModel rounds = of("d-psgd", [](Experiment& e) { e.gossip.every = Pace{.steps = 4}; });
  CHECK(rounds.by == By::round);
  CHECK(rounds.steps == 4);
  CHECK(of("d-psgd").steps == 1);
  for (const char* rule : {"noloco", "all-reduce", "parameter-server", "ssp"}) {
    INFO(rule);
    CHECK(of(rule).by == By::unknown);
    CHECK_FALSE(of(rule).why.empty());
    CHECK_FALSE(predicts(of(rule), 0.5));
  }
}

TEST_CASE("the text of a prediction has what remains, what is a bound and what is assumed") {
  CHECK(consensus_words(of("pairwise"), 0.98, false, 8) ==
        "An exchange leaves 0.98 of the squared disagreement.");
  CHECK(consensus_words(of("push-sum"), 0.99, false, 8) == "A push leaves 0.99 of the squared disagreement.");
  CHECK(consensus_words(of("clipped"), 0.98, false, 8) ==
        "An exchange leaves 0.98 of the squared disagreement, as if nothing were clipped.");
  CHECK(consensus_words(of("pairwise", [](Experiment& e) { e.gossip.partners = Partners::turns; }), 0.98,
                        false, 8) ==
        "An exchange leaves 0.98 of the squared disagreement, as if partners were drawn at random.");
  CHECK(consensus_words(of("pairwise"), 0.98, true, 100) ==
        "An exchange leaves at most 0.98 of the squared disagreement; of 100 members that is a bound, and "
        "they may agree up "
        "to twice as fast.");
  CHECK(consensus_words(of("d-psgd"), 0.0, false, 8) ==
        "No prediction: after a round all replicas are equal.");
  CHECK(consensus_words(of("push-sum"), std::nullopt, false, 80) ==
        "No prediction: how much a push of this graph leaves is not known for 80 members.");
  CHECK(consensus_words(of("pairwise"), 0.98, false, 1) == "No prediction: one peer agrees with itself.");
  CHECK(consensus_words(of("none"), std::nullopt, false, 8) ==
        "Nobody exchanges, so disagreement only grows.");
  CHECK_FALSE(predicts(of("pairwise"), 1.0));
  CHECK(predicts(of("pairwise"), 0.98));
}

}  // namespace
}  // namespace starling::training
