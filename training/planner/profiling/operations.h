// A profile without measuring: layers take time in proportion to their operations.
#pragma once

#include "models/spec.h"
#include "training/planner/profile.h"

namespace starling::training {

// A chain of the plan's layers for a mini-batch of `batch` samples, for which the whole network takes so many
// seconds. A backward pass takes twice as long as a forward pass. Activations are all bytes that cross the
// cut behind a layer as float32, skip connections included; of the last layer its output.
PipelineProfile profile_by_operations(const models::Plan& plan, double batch, double seconds);

}  // namespace starling::training
