// starling simulate: runs an experiment in virtual time.
#include "lab/simulate/simulate.h"

#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cmath>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/run_place.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/simulation_file.h"
#include "training/experiment/check.h"
#include "training/replica/recipe.h"

namespace starling::cli {
namespace {

// Real time between checkpoints; 0: none are written.
Result<Duration> read_checkpoint_interval(const Arguments& arguments) {
  const auto text = arguments.get("--checkpoint-every");
  if (!text) return Duration(std::chrono::minutes(5));
  const auto every = parse_duration(*text);
  if (!every)
    return Error{"--checkpoint-every: '" + text->substr(0, 80) +
                 "' is not a time such as 30s; 0s means never"};
  return *every;
}

int run_simulate(const Arguments& arguments, const training::Experiment& experiment) {
  lab::SimulateOptions options;
  options.data_root = data_root();
  if (Status read = read_threads(arguments, options.threads); !read) return refuse(arguments, read.error());
  if (const Result<Materials> materials = gather_materials(experiment); !materials)
    return refuse(arguments, materials.error());
  const Result<Duration> checkpoint_every = read_checkpoint_interval(arguments);
  if (!checkpoint_every) return refuse(arguments, checkpoint_every.error());
  options.resume = arguments.has("--resume");
  const auto place = place_of_run(experiment, arguments, "simulate", lab::kSimulationFile);
  if (!place) return refuse(arguments, place.error());
  if (place->done) return print_done(arguments, *place->done, place->path);

  warn(training::warning_of_workers(experiment));
  warn(training::warning_of_precision(experiment, true));
  warn(lab::warning_for_simulation(experiment));
  mallopt(M_ARENA_MAX, 1);  // several heaps take a quarter more memory and save no time
  const lab::Interrupts interrupts;
  options.interrupted = [&interrupts] { return interrupts.requested(); };
  auto written_at = std::chrono::steady_clock::now();
  if (checkpoint_every->count() > 0) {
    options.checkpoint_due = [&written_at, every = *checkpoint_every] {
      const auto now = std::chrono::steady_clock::now();
      if (now - written_at < every) return false;
      written_at = now;
      return true;
    };
  }
  options.notice = warn;
  ProgressLine progress;
  options.progress = [&progress, time_left = TimeLeft()](double seconds, double fraction) mutable {
    const auto left = time_left.after(fraction);
    progress.show(fmt::format("{:3.0f} %, {:.1f} s of virtual time{}", std::floor(fraction * 100), seconds,
                              left ? ", " + format_time_left(*left) : ""));
  };
  const Result<training::Summary> summary = lab::simulate(experiment, options, *place->folder);
  progress.clear();
  if (!summary) {
    fail(arguments, summary.error());
    return interrupts.requested() ? kExitInterrupted : kExitRunFailed;
  }
  return print_results(arguments, *summary, place->path,
                       options.checkpoint_due ? "the same command with --resume continues it" : "");
}

}  // namespace

Command simulate_command() {
  return run_command(
      "simulate", "run an experiment in virtual time: deterministic, on any number of threads",
      {threads_flag("threads that compute", "Run"),
       {.name = "--checkpoint-every",
        .placeholder = "TIME",
        .help = "real time between checkpoints in the folder of the results; 0s: never (default 5m)",
        .section = "Results"},
       {.name = "--resume",
        .help = "resume from the folder's checkpoint; the results equal those of an uninterrupted run",
        .section = "Results"}},
      run_simulate,
      "starling simulate --peers 16 --topology ring --slow 3=10\n"
      "starling simulate experiments/one-straggler.toml --rule none");
}

}  // namespace starling::cli
