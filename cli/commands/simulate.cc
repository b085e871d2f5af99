// starling simulate: runs an experiment in virtual time.
#include "lab/simulate/simulate.h"

#include <fmt/format.h>
#include <malloc.h>

#include <chrono>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/flag_values.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "lab/simulate/incidents.h"
#include "training/experiment/check.h"

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
  const Result<std::string> out = output_folder(experiment, arguments);
  if (!out) return refuse(arguments, out.error());
  const Result<Duration> checkpoint_every = read_checkpoint_interval(arguments);
  if (!checkpoint_every) return refuse(arguments, checkpoint_every.error());
  options.resume = arguments.has("--resume");
  const auto folder = options.resume ? training::RunFolder::resume(*out)
                                     : training::RunFolder::create(*out, arguments.has("--force"));
  if (!folder) return refuse(arguments, folder.error());

  warn(training::warning_of_workers(experiment));
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
  options.progress = [&progress, shown = -1](double seconds, double fraction) mutable {
    const int percent = static_cast<int>(fraction * 100);
    if (percent != std::exchange(shown, percent))
      progress.show(fmt::format("{:3} %, {:.1f} s of virtual time", percent, seconds));
  };
  const Result<training::Summary> summary = lab::simulate(experiment, options, *folder);
  progress.clear();
  if (!summary) return fail(arguments, summary.error());
  return print_results(arguments, *summary, folder->path());
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
