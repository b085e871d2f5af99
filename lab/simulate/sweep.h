// Runs the experiments of a sweep in virtual time, several at once, each in its own folder, and combines
// their summaries. Runs that are complete are kept, so a sweep that was stopped, or whose lists have grown,
// continues.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "training/experiment/sweep.h"

namespace starling::lab {

struct SweepOptions {
  std::string out;       // folder for the runs' folders, results.csv and results.json
  unsigned threads = 0;  // for all runs together; 0: all cores. Does not change results
  bool force = false;    // repeat runs that are complete
  std::string data_root;
  // Called after each run: how many of all runs are complete, in what time, and the run's summary as JSON.
  std::function<void(const training::SweepPoint& point, std::size_t done, std::size_t all, double seconds,
                     const std::string& summary)>
      finished;
  std::function<bool()> interrupted;  // true ends the sweep; runs under way are discarded
};

struct SweepOutcome {
  std::size_t ran = 0, kept = 0;  // kept: complete before this sweep
  bool interrupted = false;
  std::string table;  // over the seeds of each combination: accuracy, time, time to the target
  std::string json;   // the content of results.json
};

// An Error before the first run if a folder contains results of another experiment (without `force`) or
// cannot be written, and after a run that fails, whose name begins the message.
Result<SweepOutcome> run_sweep(const training::Sweep& sweep, const SweepOptions& options);

}  // namespace starling::lab
