#include "training/runs/experiment/consensus_model.h"

#include <cstdio>

#include "base/text.h"

namespace starling::training {
namespace {

using By = ConsensusModel::By;

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Why no figure predicts this experiment; empty if one does.
std::string obstacle(const Experiment& experiment) {
  const GossipSettings& gossip = experiment.gossip;
  const RuleTraits& rule = traits(gossip.rule);
  if (rule.consensus == By::unknown) return std::string(rule.unpredicted);
  if (rule.consensus == By::nobody) return "";
  if (rule.consensus == By::round) {
    if (resolved_every(experiment).kind == Pace::Kind::steps) return "";
    return "rounds are counted in steps here, and gossip.every is a time";
  }
  // With a dense payload a copy is the current replica, and both sides take their mean.
  if (rule.copies && !traits(gossip.payload).dense)
    return std::string(rule.name) + " with " + std::string(traits(gossip.payload).name) +
           " mixes copies that lag behind the replicas, which the analysis does not cover";
  if (!traits(gossip.payload).dense) {
    return std::string(rule.name) + " with " + std::string(traits(gossip.payload).name) +
           " mixes only the values that learning has changed most since they were last mixed, so the other "
           "differences stay";
  }
  if (rule.copies && gossip.consensus_rate && *gossip.consensus_rate != 1)
    return "the analysis assumes plain means, but gossip.consensus_rate is " +
           format_number(*gossip.consensus_rate);
  if (gossip.weights != Shares::equal)
    return "the analysis assumes equal shares, and gossip.weights = \"" + std::string(name(gossip.weights)) +
           "\" makes them unequal";
  return "";
}

}  // namespace

ConsensusModel consensus_model(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.gossip.rule);
  ConsensusModel model{.by = rule.consensus, .why = obstacle(experiment)};
  if (!model.why.empty()) model.by = By::unknown;
  if (model.by == By::round) model.steps = static_cast<double>(resolved_every(experiment).steps);
  if (model.by != By::exchange && model.by != By::push) return model;
  if (experiment.gossip.partners != Partners::uniform) model.as_if = "partners were drawn at random";
  if (!rule.predicted_as_if.empty())
    model.as_if += (model.as_if.empty() ? "" : " and ") + std::string(rule.predicted_as_if);
  return model;
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
