// Speed-ups that papers about pipelines published, each beside what our schedules and our planner predict for
// the same setting. The published values are data with their source; ours are computed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "training/pipeline/profile.h"

namespace starling::training {

struct PublishedFigure {
  std::string work;      // "GPipe"
  std::string setting;   // "Transformer, K 8, M 32"
  std::string baseline;  // what the speed-up is over
  std::string source;    // where it was published
  double published = 0;
  std::optional<double> ours = std::nullopt;  // nullopt: `reason` says what is missing
  std::string reason = {};                    // why they differ
  // Of PipeDream's figures: the same as `ours` if computing and synchronization do not overlap, and the
  // replicas of the stages that our planner chooses.
  std::optional<double> without_overlap = std::nullopt;
  std::string planner_chooses = {};
};

// K equal stages, M micro-batches and free transfers, by the schedule gpipe.
std::vector<PublishedFigure> equal_stage_figures();

// ResNet-101 on K devices by the schedule gpipe with recomputation: the stages are those that our planner
// chooses by the layers' operations.
Result<std::vector<PublishedFigure>> resnet101_figures();

// The networks of pipedream_figures(): NAME.graph.txt is the name of a published profile.
std::vector<std::string> pipedream_networks();

// PipeDream against data parallelism, from its published profiles. `profiles`: for each network of
// pipedream_networks(), nullopt if it is not there.
Result<std::vector<PublishedFigure>> pipedream_figures(
    const std::vector<std::optional<PipelineProfile>>& profiles);

}  // namespace starling::training
