// What `starling plan` prints, for people and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training/planner/prediction.h"

namespace starling::cli {

struct PlanReport {
  std::string name;             // of the network, or of the profile's file
  std::string device;           // that was measured; empty: the times are from a file
  double whole = 0;             // measured seconds of a micro-batch, by the whole network
  double by_layers = 0;         // the same, summed over layers by themselves
  std::optional<int> samples;   // of a micro-batch
  int asked_micro_batches = 1;  // of a mini-batch
  std::vector<std::string> layers;
  training::PlanRequest request;
  training::PipelinePrediction prediction;
};

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace starling::cli
