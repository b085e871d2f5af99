// Decides how several devices of one peer share its network (experiment.h, Split).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/planner/profile.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

// An experiment whose split is settled.
struct Settled : Experiment {
  std::string
      why{};  // of `automatic`, the end of a sentence: "; the planner expects a batch every 4 ms, ..."
};

// The experiment with all that its split leaves open: `automatic` becomes data or stages, as the planner of
// pipelines decides from a profile that is measured on this back end (null: an estimated one), and stages get
// their cuts and the number of micro-batches. Without cuts the planner makes them from estimated_profile(),
// so they are the same in every run. The Error says what is possible. Unchanged with fewer than two devices.
Result<Settled> settle_split(const Experiment& experiment, const models::Plan& plan,
                             const kernels::Backend* backend);

// A profile for batches of `batch` samples from the plan alone: the time of a layer's operations and of
// moving its output, at rates of a usual processor. Only ratios of its times mean anything.
PipelineProfile estimated_profile(const models::Plan& plan, int batch);

// The layers of each stage, "conv1 to pool2". REQUIRES: the experiment is settled and has stages.
std::vector<std::string> stage_layers(const Experiment& experiment, const models::Plan& plan);

// "2 stages: conv1 to pool2, fc1 to fc2; 1f1b, 8 micro-batches of 8 samples", "each layer in 2 parts",
// "data". REQUIRES: the experiment is settled and has several devices.
std::string split_text(const Experiment& experiment, const models::Plan& plan);

}  // namespace starling::training
