// An experiment in virtual time: the daemon's core, exchange arithmetic and training, driven by one event
// queue. The same seed gives the same result to the last digit, on any number of threads.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "lab/simulate/picture.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::lab {

// Nothing here changes the results.
struct SimulateOptions {
  unsigned threads = 0;  // for the computation; 0: all cores
  std::string data_root;
  // Called regularly with the virtual seconds and the fraction done (0..1).
  std::function<void(double seconds, double fraction)> progress;
  // Called between steps: true ends the run early, with results.
  std::function<bool()> interrupted;
  // Called between steps: true writes a checkpoint into the folder (lab/simulate/simulation_file.h), as does
  // an interruption. Without it, none is written. A run that ends by itself removes its checkpoint.
  std::function<bool()> checkpoint_due;
  // Resumes from the folder's checkpoint; the results equal an uninterrupted run's.
  bool resume = false;
  // `picture_due`: called between steps; true asks for a call of `picture` with the present state.
  std::function<bool()> picture_due;
  std::function<void(const SwarmPicture& picture)> picture;
  // Called before the first step with a line about each kind of peer that has several devices: what they
  // divide.
  std::function<void(const std::string& line)> decided;
  // Called with a sentence that the user should read.
  std::function<void(const std::string& sentence)> notice;
};

// Writes metrics.jsonl, timeline.jsonl, experiment.toml, model.safetensors and summary.json into `folder`.
Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder);

}  // namespace starling::lab
