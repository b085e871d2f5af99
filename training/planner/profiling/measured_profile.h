// Measures the layers of a network on one device, for the planner of pipelines. Each layer runs as a
// models::Section of its own, on random samples. Layers by themselves take longer than the network as a
// whole, in which a back end computes several at once, so their times are scaled to the sum that a step of
// the whole network takes.
#pragma once

#include "kernels/backend.h"
#include "models/spec.h"
#include "training/planner/profile.h"

namespace starling::training {

struct MeasuredProfile {
  // A chain of the plan's layers, so that every cut lies between two consecutive ones. The activations of a
  // layer are all bytes that cross the cut behind it as float32, skip connections included; of the last layer
  // its output. The parameters of a tied layer count at each layer that has them.
  PipelineProfile profile;
  double whole = 0;      // seconds of a forward and a backward pass of the whole network
  double by_layers = 0;  // the same, summed over the layers before they were scaled
};

// How often to repeat what is timed; the median counts.
struct Repetitions {
  int least = 3, most = 100;
  double seconds = 0.05;  // for each pass; no further repetition after this time
};

// For batches of `batch` samples. The loss counts as a part of the last layer's forward pass. REQUIRES: the
// plan has at most kMostProfiledLayers layers. Throws DeviceError if the device fails.
MeasuredProfile measure_profile(const models::Plan& plan, const kernels::Backend& backend, int batch,
                                Repetitions repetitions = {});

}  // namespace starling::training
