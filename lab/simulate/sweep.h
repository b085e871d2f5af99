// Runs the experiments of a sweep in virtual time, several at once, each in a folder of its own, and sets
// their summaries side by side. What is done already is not done again: a sweep that was stopped, or whose
// lists have grown, goes on.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "training/experiment/sweep.h"
#include "training/records/record.h"

namespace starling::lab {

struct SweepOptions {
  std::string out;       // folder of the runs' folders, of results.csv and of results.json
  unsigned threads = 0;  // for all runs together; 0: all cores. Never changes a result
  bool force = false;    // runs what is done already again
  std::string data_root;
  // Of each run that is over: how many of how many are, in what time, and its summary as JSON.
  std::function<void(const training::SweepPoint& point, std::size_t done, std::size_t all, double seconds,
                     const std::string& summary)>
      finished;
  std::function<bool()> interrupted;  // asked now and then: true ends the sweep; runs under way are not kept
};

struct SweepOutcome {
  std::size_t ran = 0, kept = 0;  // kept: they were done before
  bool interrupted = false;
  std::string table;  // over the seeds of each combination: accuracy, time, time to the target
  std::string json;   // as results.json
};

// An Error before the first run where a folder holds another experiment's results (and not `force`) or cannot
// be written; and where a run fails, whose sentence says which.
Result<SweepOutcome> run_sweep(const training::Sweep& sweep, const SweepOptions& options);

}  // namespace starling::lab
