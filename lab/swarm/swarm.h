// An experiment on real processes: starts N times `starling peer` on this machine, watches them, and averages
// and judges what they leave behind.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

struct SwarmOptions {
  std::string program;  // the executable to start as `PROGRAM peer ...`
  std::string key{};    // the file of the swarm's key; empty: none
  // Where it is set, progress is told to it, a line now and then, instead of drawn on standard error.
  std::function<void(const std::string& line)> tell = {};
};

struct SwarmOutcome {
  int exit_code =
      0;  // 0: there is a summary; 1: the run failed; 2: bad input; 130: interrupted before it began
  std::string error;  // one sentence where exit_code is not 0
  std::optional<training::Summary> summary;
};

// Starts the peers, waits for their end (or Ctrl-C, which ends the run early and still writes results; a
// second one kills all at once and exits with 130), and writes pN.log, pN.safetensors, metrics.jsonl,
// experiment.toml, model.safetensors and summary.json into `folder`. Progress goes to standard error. `plan`
// is the experiment's model for `data`, its data.
SwarmOutcome run_swarm(const training::Experiment& experiment, const models::Plan& plan,
                       const datasets::DataPair& data, const SwarmOptions& options,
                       const training::RunFolder& folder);

}  // namespace starling::lab
