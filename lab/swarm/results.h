// The results of a swarm that has ended: evaluates the replicas that its members left, and writes
// summary.json, timeline.jsonl and model.safetensors.
#pragma once

#include "lab/swarm/evaluations.h"
#include "lab/swarm/swarm_options.h"
#include "lab/swarm/swarm_run.h"
#include "lab/swarm/timelines.h"

namespace starling::lab {

SwarmOutcome write_results(SwarmRun& run, Timelines& timelines, const Evaluations& evaluations);

}  // namespace starling::lab
