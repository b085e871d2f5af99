// How a rule of exchange brings replicas together, as far as the analysis of a topology
// (topologies/analysis.h) holds for it: what of the analysis to take, and what to say where there is nothing
// to take. For the dashed line beside measured distances in reports and on live pages.
#pragma once

#include <optional>
#include <string>

#include "training/experiment/experiment.h"

namespace starling::training {

struct ConsensusModel {
  using By = Consensus;
  By by = By::unknown;
  double steps = 1;     // of a peer, from round to round
  std::string why{};    // of unknown: behind "No prediction: "
  std::string as_if{};  // what the analysis takes for granted and this run does not; empty: nothing
};

ConsensusModel consensus_model(const Experiment& experiment);

// "An exchange leaves 0.98 of the squared disagreement.": whole sentences. `factor` is what an exchange, a
// push or a round leaves, of `members`; without a value, or with one that says nothing (0, 1), they say why
// there is no prediction. `is_bound`: it leaves at most so much.
std::string consensus_words(const ConsensusModel& model, std::optional<double> factor, bool is_bound,
                            std::size_t members);
// Whether such a factor predicts anything.
bool predicts(const ConsensusModel& model, std::optional<double> factor);

}  // namespace starling::training
