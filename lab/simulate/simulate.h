// An experiment in virtual time: the same core, the same exchange arithmetic, the same mathematics as the
// daemon's, driven by one event queue. The same seed gives the same result to the last digit, on any number
// of threads.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

struct SimulateOptions {
  unsigned threads = 0;  // for the mathematics; 0: all cores. Never changes a result
  std::string data_root;
  // Told now and then, for a progress line: virtual seconds and the fraction done (0..1).
  std::function<void(double seconds, double fraction)> progress;
  // Asked between steps: true ends the run early and in order; results are written.
  std::function<bool()> interrupted;
  // Asked between steps: true writes a checkpoint into the folder (lab/simulation_file.h), and so does an interruption
  // then; null: none is written. It goes when the run has ended of itself.
  std::function<bool()> checkpoint_due;
  bool resume = false;  // go on from the folder's checkpoint; all results are those of a run that never stopped
  // What people should know.
  std::function<void(const std::string& sentence)> notice;
};

// Writes metrics.jsonl, timeline.jsonl, experiment.toml, model.safetensors and summary.json into `folder`.
Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder);

}  // namespace starling::lab
