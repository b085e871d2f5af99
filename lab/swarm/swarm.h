// An experiment on real processes: starts N times `starling peer` on this machine, supervises them, and
// averages and evaluates their replicas.
#pragma once

#include "datasets/dataset.h"
#include "lab/swarm/swarm_options.h"
#include "models/spec.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::lab {

// Starts the peers and waits until all have ended. Ctrl-C ends the run early and still writes results; a
// second one kills all processes and exits with 130. Writes pN.log, pN.safetensors, metrics.jsonl,
// timeline.jsonl, experiment.toml, model.safetensors and summary.json into `folder`. Progress goes to
// standard error. `plan` is the experiment's model for `data`, its data.
SwarmOutcome run_swarm(const training::Experiment& experiment, const models::Plan& plan,
                       const datasets::DataPair& data, const SwarmOptions& options,
                       const training::RunFolder& folder);

}  // namespace starling::lab
