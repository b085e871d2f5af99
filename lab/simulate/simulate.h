// An experiment in virtual time: the daemon's core, exchange arithmetic and training, driven by one event
// queue. The same seed gives the same result to the last digit, on any number of threads.
#pragma once

#include "base/result.h"
#include "lab/simulate/simulate_options.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

// Writes metrics.jsonl, timeline.jsonl, experiment.toml, model.safetensors and summary.json into `folder`.
Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder);

}  // namespace starling::lab
