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

ConsensusModel of_exchanges(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.rule);
  if (experiment.weights != Shares::equal)
    return unknown("the analysis is of equal shares, and gossip.weights = \"" +
                   std::string(name(experiment.weights)) + "\" makes them unequal");
  ConsensusModel model{.by = rule.consensus};
  if (experiment.partners != Partners::uniform) model.as_if = "partners were drawn at random";
  if (!rule.predicted_as_if.empty())
    model.as_if += (model.as_if.empty() ? "" : " and ") + std::string(rule.predicted_as_if);
  return model;
}

// Where all of a value travels, a copy is the replica as it is now, and both sides take their mean.
std::optional<ConsensusModel> unlike_a_mean(const Experiment& experiment) {
  if (!traits(experiment.payload).dense)
    return unknown(std::string(traits(experiment.rule).name) + " with " +
                   std::string(traits(experiment.payload).name) +
                   " mixes copies that lag behind the replicas, and no analysis here is of those");
  if (experiment.consensus_rate && *experiment.consensus_rate != 1)
    return unknown("the analysis is of plain means, and gossip.consensus_rate = " +
                   format_number(*experiment.consensus_rate) + " goes another part of the way");
  return std::nullopt;
}

}  // namespace

ConsensusModel consensus_model(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.rule);
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
