// starling simulate: runs an experiment in virtual time.
#include "lab/simulate/simulate.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/contents.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/run_place.h"
#include "cli/commands/run/simulated_page.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/simulation_file.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/check.h"

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

// Serves the page of --http; null without it.
Result<std::unique_ptr<SimulatedPage>> open_page(const Arguments& arguments,
                                                 const training::Experiment& experiment,
                                                 const std::string& data, std::uint64_t epoch_samples) {
  const auto text = arguments.get("--http");
  if (!text) return std::unique_ptr<SimulatedPage>();
  if (traits(experiment.gossip.rule).all_at_once())
    return Error{"--http: a simulated run without gossip has no page, as all its peers are equal"};
  const auto at = Address::parse(*text);
  if (!at) return Error{"--http: " + at.error().message};
  auto page = SimulatedPage::open(*at, experiment, data, epoch_samples);
  if (!page) return Error{"--http: " + page.error().message};
  tell(Told::progress, "page: http://" + to_string((*page)->address()) + "/");
  return page;
}

constexpr Duration kFirstCheckpointAfter = std::chrono::seconds(30);

// Asks for a checkpoint whenever `every` of real time has passed, and for the first one after 30 s; never if
// `every` is 0.
std::function<bool()> checkpoints_every(Duration every) {
  if (every.count() <= 0) return {};
  return [every, wait = std::min(every, kFirstCheckpointAfter),
          written_at = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - written_at < wait) return false;
    written_at = now;
    wait = every;
    return true;
  };
}

// What the checks of an experiment find.
struct Checked {
  std::string data;  // its name
  std::uint64_t samples = 0;
  RunPlace place;
};

// All checks before the run. The data are read again for it, which frees them meanwhile.
Result<Checked> check_materials(const training::Experiment& experiment, const Arguments& arguments) {
  Result<Materials> materials = gather_materials(experiment);
  if (!materials) return materials.error();
  tell_decisions(materials->data);
  tell_graph(experiment.gossip.topology);
  if (!experiment.contents.empty()) {
    const auto contents = contents_now(experiment, *materials);
    if (!contents) return contents.error();
    warn_of_changes(experiment, *contents, arguments.get("EXPERIMENT").value_or(""));
  }
  auto place = place_of_run(experiment, arguments, "simulate", lab::kSimulationFile,
                            [&] { return contents_now(experiment, *materials); });
  if (!place) return place.error();
  return Checked{materials->data.name, materials->data.train.size(), std::move(*place)};
}

// Runs it and prints the results. `options` has what the flags say.
int run_in_place(const Arguments& arguments, const training::Experiment& experiment,
                 const lab::Interrupts& interrupts, lab::SimulateOptions& options, const RunPlace& place) {
  options.interrupted = [&interrupts] { return interrupts.requested(); };
  options.notice = warn;
  options.decided = [](const std::string& line) { tell(Told::progress, line); };
  ProgressLine progress;
  options.progress = [&progress, time_left = TimeLeft()](double seconds, double fraction) mutable {
    const auto left = time_left.after(fraction);
    progress.show(fmt::format("{:3.0f} %, {:.1f} s of virtual time{}", std::floor(fraction * 100), seconds,
                              left ? ", " + format_time_left(*left) : ""));
  };
  const Result<training::Summary> summary = lab::simulate(experiment, options, *place.folder);
  progress.clear();
  if (!summary) {
    fail(arguments, summary.error());
    return interrupts.requested() ? kExitInterrupted : kExitRunFailed;
  }
  warn(training::warning_of_late_faults(experiment, summary->seconds));
  return print_results(arguments, *summary, place.path,
                       options.checkpoint_due ? "the same command with --resume continues it" : "");
}

int run_simulate(const Arguments& arguments, const training::Experiment& experiment) {
  lab::SimulateOptions options;
  options.data_root = data_root();
  if (Status read = read_threads(arguments, options.threads); !read) return refuse(arguments, read.error());
  const Result<Duration> checkpoint_every = read_checkpoint_interval(arguments);
  if (!checkpoint_every) return refuse(arguments, checkpoint_every.error());
  const auto checked = check_materials(experiment, arguments);
  if (!checked) return refuse(arguments, checked.error());
  options.checkpoint_due = checkpoints_every(*checkpoint_every);
  options.resume = arguments.has("--resume");
  const RunPlace& place = checked->place;
  if (place.done) return print_done(arguments, *place.done, place.path);
  const lab::Interrupts interrupts;  // before there are threads, which inherit the blocked signals
  const auto page = open_page(arguments, experiment, checked->data, checked->samples);
  if (!page) return refuse(arguments, page.error());
  if (*page) {
    options.picture_due = [&page] { return (*page)->is_due(); };
    options.picture = [&page](const lab::SwarmPicture& picture) { (*page)->show(picture); };
  }

  warn(training::warning_of_workers(experiment));
  warn(training::warning_of_vertical_sync(experiment));
  warn(training::warning_of_precision(experiment, true));
  warn(lab::warning_for_simulation(experiment));
  mallopt(M_ARENA_MAX, 1);  // several heaps take a quarter more memory and save no time
  return run_in_place(arguments, experiment, interrupts, options, place);
}

}  // namespace

Command simulate_command() {
  return run_command(
      "simulate", "run an experiment in virtual time: deterministic, on any number of threads",
      {threads_flag("threads that compute", "Run"),
       {.name = "--http",
        .placeholder = "ADDR:PORT",
        .help = "serve the live page of the simulated swarm here",
        .section = "Run"},
       {.name = "--checkpoint-every",
        .placeholder = "TIME",
        .help = "real time between checkpoints in the folder of the results; 0s: never (default 5m)",
        .section = "Results"},
       {.name = "--resume",
        .help = "resume from the folder's checkpoint; the results equal those of an uninterrupted run",
        .section = "Results"}},
      run_simulate,
      "starling simulate --peers 16 --topology ring --slow 3=10\n"
      "starling simulate experiments/late-joiners.toml --rule none");
}

}  // namespace starling::cli
