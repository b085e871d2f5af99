// How an experiment is run in virtual time. Nothing here changes its results.
#pragma once

#include <functional>
#include <string>

namespace starling::lab {

struct SimulateOptions {
  unsigned threads = 0;  // for the computation; 0: all cores
  std::string data_root;
  // Called now and then with the virtual seconds and the fraction done (0..1).
  std::function<void(double seconds, double fraction)> progress;
  // Called between steps: true ends the run early, with results.
  std::function<bool()> interrupted;
  // Called between steps: true writes a checkpoint into the folder (lab/simulate/simulation_file.h), as does
  // an interruption. Without it, none is written. A run that ends by itself removes its checkpoint.
  std::function<bool()> checkpoint_due;
  bool resume =
      false;  // from the folder's checkpoint; the results equal those of a run that was never stopped
  // Called with a sentence that the user should read.
  std::function<void(const std::string& sentence)> notice;
};

}  // namespace starling::lab
