#include "training/experiment/consensus_model.h"

#include <cstdio>
#include <utility>

#include "base/text.h"

namespace starling::training {
namespace {

using By = ConsensusModel::By;

ConsensusModel unknown(std::string why) { return {.by = By::unknown, .why = std::move(why)}; }

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

ConsensusModel of_exchanges(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.gossip.rule);
  if (experiment.gossip.weights != Shares::equal)
    return unknown("the analysis assumes equal shares, and gossip.weights = \"" +
                   std::string(name(experiment.gossip.weights)) + "\" makes them unequal");
  ConsensusModel model{.by = rule.consensus};
  if (experiment.gossip.partners != Partners::uniform) model.as_if = "partners were drawn at random";
  if (!rule.predicted_as_if.empty())
    model.as_if += (model.as_if.empty() ? "" : " and ") + std::string(rule.predicted_as_if);
  return model;
}

// With a dense payload a copy is the current replica, and both sides take their mean.
std::optional<ConsensusModel> unlike_a_mean(const Experiment& experiment) {
  if (!traits(experiment.gossip.payload).dense)
    return unknown(std::string(traits(experiment.gossip.rule).name) + " with " +
                   std::string(traits(experiment.gossip.payload).name) +
                   " mixes copies that lag behind the replicas, which the analysis does not cover");
  if (experiment.gossip.consensus_rate && *experiment.gossip.consensus_rate != 1)
    return unknown("the analysis assumes plain means, but gossip.consensus_rate is " +
                   format_number(*experiment.gossip.consensus_rate));
  return std::nullopt;
}

}  // namespace

ConsensusModel consensus_model(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.gossip.rule);
  switch (rule.consensus) {
    case By::unknown:
      return unknown(std::string(rule.unpredicted));
    case By::nobody:
      return {.by = By::nobody};
    case By::round: {
      const Pace pace = resolved_every(experiment);
      if (pace.kind != Pace::Kind::steps)
        return unknown("rounds are counted in steps here, and gossip.every is a time");
      return {.by = By::round, .steps = static_cast<double>(pace.steps)};
    }
    case By::exchange:
    case By::push:
      break;
  }
  if (rule.copies) {
    if (auto why = unlike_a_mean(experiment)) return *why;
  }
  return of_exchanges(experiment);
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
