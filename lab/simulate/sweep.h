// Runs the experiments of a sweep in virtual time, several at once, each in its own folder, and combines
// their summaries. Runs that are complete are kept, so a sweep that was stopped, or whose lists have grown,
// continues.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/runs/experiment/sweep.h"

namespace starling::lab {

struct SweepOptions {
  std::string out;          // folder for the runs' folders, results.csv and results.json
  unsigned threads = 0;     // for all runs together; 0: all cores. Does not change results
  bool force = false;       // repeat runs that are complete
  bool keep_going = false;  // continue after a run that fails
  std::string data_root;
  // Called after each run: how many of all runs are complete, in what time, and the run's summary as JSON.
  std::function<void(const training::SweepPoint& point, std::size_t done, std::size_t all, double seconds,
                     const std::string& summary)>
      finished;
  // Called after a run that failed, with the reason.
  std::function<void(const training::SweepPoint& point, const std::string& reason)> failed;
  std::function<bool()> interrupted;  // true ends the sweep; runs under way are discarded
};

struct SweepOutcome {
  std::size_t ran = 0, kept = 0;  // kept: complete before this sweep
  bool interrupted = false;
  std::vector<std::pair<std::string, std::string>> failures;  // names of runs, and why they failed
  // Runs that ended before their faults began: their names, and the sentences of warning_of_late_faults().
  std::vector<std::pair<std::string, std::string>> late_faults;
  std::string table;  // over the seeds of each combination: accuracy, time, time to the target
  std::string json;   // the content of results.json
};

// An Error before the first run if a folder contains results of another experiment, or of data or first
// parameters that have changed since (without `force`), or cannot be written, and after a run that fails,
// whose name begins the message; with `keep_going` only if results cannot be written.
Result<SweepOutcome> run_sweep(const training::Sweep& sweep, const SweepOptions& options);

// The summary.json of each point that is complete in options.out, otherwise an empty text. An Error as
// run_sweep()'s before the first run.
Result<std::vector<std::string>> complete_summaries(const training::Sweep& sweep,
                                                    const SweepOptions& options);

// What a sweep will take, in seconds of real time.
struct SweepEstimate {
  struct Run {
    bool complete = false;
    std::optional<double> seconds{};  // none if the run ends only at its target accuracy
    std::string split{};              // what the devices of its peers divide; empty if none has several
  };
  std::vector<Run> runs;  // of each point
  double seconds = 0;  // all that are not complete and have an estimate, as many at once as there are threads
  std::size_t measured = 0,
              calibrated = 0;  // kinds of run: by complete runs, and by short runs made for this
};

// Estimates each run as its fixed time plus its samples times the time of a sample, as measured by complete
// runs of this sweep with the same model, data, batch size, precision, rule and number of peers. For up to 8
// kinds without such a run, one is run for half a second, in a temporary folder; others take the mean of
// those. Writes nothing into options.out. An Error as run_sweep()'s, also of a short run.
Result<SweepEstimate> estimate_sweep(const training::Sweep& sweep, const SweepOptions& options);

}  // namespace starling::lab
