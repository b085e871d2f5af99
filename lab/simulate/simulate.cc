#include "lab/simulate/simulate.h"

#include <filesystem>
#include <utility>

#include "lab/simulate/all_reduce.h"
#include "lab/simulate/simulation_file.h"
#include "lab/simulate/world_run.h"
#include "training/experiment/experiment_file.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::RunFolder;
using training::Summary;

Result<std::optional<Summary>> run_world(const Experiment& experiment, const SimulateOptions& options,
                                         const RunFolder& folder, const SimulationFile* from) {
  auto run = WorldRun::make(experiment, options, folder, from);
  if (!run) return run.error();
  return (*run)->run();
}

}  // namespace

Result<Summary> simulate(const Experiment& experiment, const SimulateOptions& options,
                         const RunFolder& folder) {
  const auto notify = [&options](const char* sentence) {
    if (options.notice) options.notice(sentence);
  };
  if (traits(experiment.rule).all_at_once()) {
    if (options.resume)
      notify("a run by all-reduce has no checkpoints: it starts over, with the same result");
    return simulate_all_reduce(experiment, options, folder);
  }
  std::optional<Summary> summary;
  if (options.resume) {
    const std::string checkpoint = folder.file(kSimulationFile);
    if (std::error_code error; !std::filesystem::exists(checkpoint, error))
      return Error{"cannot resume: " + folder.path() +
                   " has no checkpoint; none was written, or the run has ended"};
    const auto file = SimulationFile::open(checkpoint, training::to_toml(experiment));
    if (!file) return file.error();
    folder.remove_end();
    auto resumed = run_world(experiment, options, folder, &*file);
    if (!resumed) return resumed.error();
    summary = std::move(*resumed);
    if (!summary)
      notify(
          "the run depends on values that the checkpoint does not contain: it starts over, with the same "
          "result");
  }
  if (!summary) {
    auto run = run_world(experiment, options, folder, nullptr);
    if (!run) return run.error();
    summary = std::move(*run);
  }
  return std::move(*summary);
}

}  // namespace starling::lab
