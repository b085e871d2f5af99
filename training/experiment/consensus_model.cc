#include "training/experiment/consensus_model.h"

#include <cstdio>
#include <utility>

#include "base/text.h"

namespace starling::training {
namespace {

using By = ConsensusModel::By;

ConsensusModel unknown(std::string why) {
  return {.by = By::unknown, .why = std::move(why)};
}

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

ConsensusModel of_exchanges(const Experiment& experiment, By by) {
  if (experiment.weights != "equal")
    return unknown("the analysis is of equal shares, and gossip.weights = \"" + experiment.weights +
                   "\" makes them unequal");
  ConsensusModel model{.by = by};
  if (experiment.partners != "uniform") model.as_if = "partners were drawn at random";
  if (experiment.rule == "clipped")
    model.as_if += (model.as_if.empty() ? "" : " and ") + std::string("nothing were clipped");
  return model;
}

}  // namespace

ConsensusModel consensus_model(const Experiment& experiment) {
  const std::string& rule = experiment.rule;
  if (rule == "none") return {.by = By::nobody};
  if (rule == "pairwise" || rule == "clipped") return of_exchanges(experiment, By::exchange);
  if (rule == "push-sum") return of_exchanges(experiment, By::push);
  if (rule == "choco") {
    // Where all of a value travels a public copy is the replica as it is now, and both take their mean.
    if (experiment.payload == "top-k")
      return unknown(
          "choco with top-k mixes copies that lag behind the replicas, and no analysis here is of those");
    if (experiment.consensus_rate && *experiment.consensus_rate != 1)
      return unknown("the analysis is of plain means, and gossip.consensus_rate = " +
                     format_number(*experiment.consensus_rate) + " goes another part of the way");
    return of_exchanges(experiment, By::exchange);
  }
  if (rule == "d-psgd") {
    const Every every = resolved_every(experiment);
    if (every.kind != Every::Kind::steps)
      return unknown("rounds are counted in steps here, and gossip.every is a time");
    return {.by = By::round, .steps = static_cast<double>(every.steps)};
  }
  if (rule == "noloco")
    return unknown(
        "noloco's outer steps have momentum and use partners' values of earlier rounds; no analysis here is "
        "of that");
  if (rule == kAllReduce) return unknown("all replicas are equal after every step");
  if (has_servers(experiment))
    return unknown("peers meet servers and not one another, so the topology has no say");
  return unknown("no analysis here is of the rule " + rule);
}

bool predicts(const ConsensusModel& model, std::optional<double> factor) {
  return model.by == By::nobody || (model.by != By::unknown && factor && *factor > 0 && *factor < 1);
}

std::string consensus_words(const ConsensusModel& model, std::optional<double> factor, bool is_bound,
                            std::size_t members) {
  if (model.by == By::unknown) return "No prediction: " + model.why + ".";
  if (model.by == By::nobody) return "Nobody exchanges, so disagreement only grows.";
  if (members < 2) return "No prediction: one peer agrees with itself.";
  const std::string what = model.by == By::exchange ? "n exchange"
                           : model.by == By::push   ? " push"
                                                    : " round";
  if (factor && *factor <= 0) return "No prediction: after a" + what + " all replicas are equal.";
  if (!predicts(model, factor)) {
    return "No prediction: how much a" + what + " of this graph leaves is not known for " +
           std::to_string(members) + " members.";
  }
  std::string words = "A" + what + " leaves " + (is_bound ? "at most " : "") + four_digits(*factor) +
                      " of the squared disagreement";
  if (!model.as_if.empty()) words += ", as if " + model.as_if;
  if (is_bound)
    words += "; of " + std::to_string(members) +
             " members that is a bound, and they may agree up to twice as fast";
  return words + ".";
}

}  // namespace starling::training
