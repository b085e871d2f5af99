// Which figure of a topology's analysis (topologies/spectra/analysis.h) predicts how a rule brings replicas
// together, or why none does. For the dashed line beside measured distances in reports and on live pages.
#pragma once

#include <optional>
#include <string>

#include "training/runs/experiment/experiment.h"

namespace starling::training {

struct ConsensusModel {
  using By = Consensus;
  By by = By::unknown;
  double steps = 1;     // of a peer, from round to round
  std::string why{};    // if unknown: follows "No prediction: "
  std::string as_if{};  // an assumption of the analysis that this run does not meet; or empty
};

ConsensusModel consensus_model(const Experiment& experiment);

// Whole sentences: "An exchange leaves 0.98 of the squared disagreement." `factor`: the part that an
// exchange, a push or a round of `members` leaves, at most if `is_bound`. Without a factor that predicts(),
// the sentences say why a prediction is impossible.
std::string consensus_words(const ConsensusModel& model, std::optional<double> factor, bool is_bound,
                            std::size_t members);
// Whether the factor predicts anything.
bool predicts(const ConsensusModel& model, std::optional<double> factor);

}  // namespace starling::training
