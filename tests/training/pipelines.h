// Small profiles and plans for tests of the planner of pipelines.
#pragma once

#include <string>

#include "tests/catch.h"
#include "training/planner/partition.h"

namespace starling::training {

// A layer that takes `ms`, three tenths of it for the forward pass.
inline ProfiledLayer timed(double ms, double activations, double parameters) {
  return ProfiledLayer{.name = "layer",
                       .forward = 0.3e-3 * ms,
                       .backward = 0.7e-3 * ms,
                       .activations = activations,
                       .parameters = parameters};
}

inline PipelinePlan best_plan(const PipelineProfile& profile, const PlanRequest& request) {
  const auto plan = plan_pipeline(profile, request);
  if (!plan) FAIL(plan.error().message);
  return *plan;
}

// The replicas of the stages: "3-1".
inline std::string shape_of(const PipelinePlan& plan) {
  std::string text;
  for (const PipelineStage& stage : plan.stages)
    text += (text.empty() ? "" : "-") + std::to_string(stage.replicas);
  return text;
}

}  // namespace starling::training
