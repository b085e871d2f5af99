// starling sweep: many experiments in virtual time, from one file with lists.
#include "lab/simulate/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/idle_settings.h"
#include "cli/shell/on_end.h"
#include "cli/shell/output.h"
#include "datasets/description.h"
#include "lab/interrupts.h"
#include "lab/report/report.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

// What decides whether data, network and devices of an experiment can be had.
using MaterialsKey = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string,
                                std::string, std::uint32_t, std::uint32_t, std::uint32_t>;

MaterialsKey materials_key(const training::Experiment& e) {
  return {e.model.name,
          e.model.layers,
          e.model.init.value_or(""),
          e.data.source,
          e.data.partition,
          e.training.device,
          e.training.precision,
          e.training.crop,
          e.peers,
          training::servers_in_all(e)};
}

// Makes what a run would make before its first step. `decided`: adds what readers decided for the data.
Status check_one_experiment(const training::Experiment& experiment, std::set<std::string>& decided) {
  const auto materials = gather_materials(experiment);
  if (!materials) return materials.error();
  decided.insert(datasets::decisions_text(materials->data));
  if (const auto backend = training::make_host_backend(experiment); !backend) return backend.error();
  for (const training::OwnSettings& own : experiment.own) {
    const auto peer = own.peers.is_all() ? 0 : own.peers.largest();
    if (const auto backend = training::make_host_backend(training::of_peer(experiment, peer)); !backend)
      return backend.error();
  }
  return Done{};
}

// Checks all experiments before the first one runs. The Error begins with the name of the combination.
Status prepare(training::Sweep& sweep) {
  std::set<MaterialsKey> seen;
  std::set<std::string> warned, decided;
  for (training::SweepPoint& point : sweep.points) {
    training::Experiment& experiment = point.experiment;
    Status sound = resolve_names(experiment);
    if (sound) {
      set_default_end(experiment);
      sound = check_experiment(experiment);
    }
    if (sound && (!experiment.own.empty() || seen.insert(materials_key(experiment)).second))
      sound = check_one_experiment(experiment, decided);
    if (!sound) return Error{point.name + ": " + sound.error().message};
    if (const std::string text = training::warning_of_precision(experiment, true);
        !text.empty() && warned.insert(text).second)
      warn(text);
  }
  for (const std::string& text : decided)
    if (!text.empty()) tell(Told::progress, "data " + text);
  for (const training::SweepPoint& point : sweep.points) tell_graph(point.experiment.gossip.topology);
  return Done{};
}

std::string about(double seconds) {
  if (seconds < 90) return fmt::format("about {:.2g} s", std::max(1.0, seconds));
  return seconds < 5400 ? fmt::format("about {:.0f} min", seconds / 60)
                        : fmt::format("about {:.1f} h", seconds / 3600);
}

std::string kinds(std::size_t count) { return fmt::format("{} {}", count, count == 1 ? "kind" : "kinds"); }

// --dry-run: the combinations, with what each and all will take.
int print_estimate(const Arguments& arguments, const training::Sweep& sweep,
                   const lab::SweepOptions& options) {
  const auto estimate = lab::estimate_sweep(sweep, options);
  if (!estimate) return refuse(arguments, estimate.error());
  std::vector<std::vector<std::string>> rows;
  std::size_t complete = 0, unknown = 0;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const auto& run = estimate->runs[i];
    complete += run.complete ? 1 : 0;
    unknown += run.complete || run.seconds ? 0 : 1;
    rows.push_back({sweep.points[i].name,
                    run.complete  ? "complete"
                    : run.seconds ? about(*run.seconds)
                                  : "until its target",
                    run.split});
  }
  const std::size_t open = rows.size() - complete;
  std::string text = fmt::format("{}\n{} combinations, {} complete, {} to run", aligned(rows, 2), rows.size(),
                                 complete, open);
  if (open > unknown) text += " in " + about(estimate->seconds);
  if (unknown > 0) text += fmt::format("; {} end only at their target and have no estimate", unknown);
  std::vector<std::string> sources;
  if (estimate->measured > 0) sources.push_back("complete runs of " + kinds(estimate->measured));
  if (estimate->calibrated > 0)
    sources.push_back("half a second of training of " + kinds(estimate->calibrated));
  return print_out(text + "\nestimated from " + fmt::format("{}", fmt::join(sources, " and ")) +
                   "; a run that reaches its target takes less\n");
}

// Writes report.html and curves.csv, and returns what to say of the number of seeds.
std::string write_pages(const std::string& folder) {
  const auto report = lab::read_report({folder});
  Status written = Done{};
  if (!report) written = report.error();
  if (written) written = training::write_text(folder + "/report.html", lab::to_html(*report));
  if (written) {
    const auto curves = lab::curves_csv(*report);
    written = curves ? training::write_text(folder + "/curves.csv", *curves) : Status(curves.error());
  }
  if (!written) warn(written.error().message);
  if (report)
    for (const std::string& sentence : lab::set_aside(*report)) warn(sentence);
  const std::string few = report ? lab::few_seeds(*report) : "";
  return few.empty() ? "" : few + "\n";
}

// Shows the results, and returns the exit code.
int print_outcome(const Arguments& arguments, const lab::SweepOutcome& outcome, const std::string& folder) {
  std::string few;
  if (outcome.ran + outcome.kept > 0) few = write_pages(folder);
  print_out(arguments.has("--json")
                ? outcome.json
                : outcome.table + few +
                      fmt::format("\n{} experiments ran, {} were already complete\nresults   {}\n",
                                  outcome.ran, outcome.kept, folder));
  if (const auto& late = outcome.late_faults; !late.empty())
    warn(fmt::format("in {} of {} runs not all faults have happened; in {}: {}", late.size(),
                     outcome.ran + outcome.kept, late.front().first, late.front().second));
  if (!outcome.failures.empty()) {
    std::string text = fmt::format("starling sweep: {} experiments failed:", outcome.failures.size());
    for (const auto& [name, reason] : outcome.failures) text += "\n  " + name + ": " + reason;
    tell(Told::complaint, text);
  }
  if (outcome.interrupted) {
    tell(Told::progress, "starling sweep: interrupted; repeat the command to continue");
    return kExitInterrupted;
  }
  return outcome.failures.empty() ? kExitDone : kExitRunFailed;
}

int run_sweep(const Arguments& arguments) {
  const std::string file = arguments.get("EXPERIMENT").value_or("");
  const auto sets = split_sets(arguments);
  if (!sets) return refuse(arguments, sets.error());
  Result<training::Sweep> sweep = training::read_sweep(file, std::getenv, *sets);
  if (!sweep) return refuse(arguments, sweep.error());
  if (Status sound = prepare(*sweep); !sound) return refuse(arguments, sound.error());
  warn_of_idle_settings(arguments, *sweep, file);

  lab::SweepOptions options;
  options.data_root = data_root();
  options.force = arguments.has("--force");
  options.out = arguments.get("--out").value_or("runs/" + sweep->points.front().experiment.name + "-sweep");
  if (options.out.empty()) return refuse(arguments, "--out: the path is empty");
  if (Status read = read_threads(arguments, options.threads); !read) return refuse(arguments, read.error());
  options.keep_going = arguments.has("--keep-going");
  const lab::Interrupts interrupts;
  options.interrupted = [&interrupts] { return interrupts.requested(); };
  if (arguments.has("--dry-run")) return print_estimate(arguments, *sweep, options);
  std::size_t ran = 0;
  options.finished = [&ran](const training::SweepPoint& point, std::size_t done, std::size_t all,
                            double seconds, const std::string& /*summary*/) {
    ++ran;
    const double left = seconds / static_cast<double>(ran) * static_cast<double>(all - done);
    tell(Told::progress, fmt::format("{} of {}: {}; {:.0f} s so far, about {:.0f} s left", done, all,
                                     point.name, seconds, left));
  };
  if (options.keep_going)
    options.failed = [](const training::SweepPoint& point, const std::string& reason) {
      tell(Told::progress, fmt::format("failed: {}: {}", point.name, reason));
    };
  const Result<lab::SweepOutcome> outcome = lab::run_sweep(*sweep, options);
  if (!outcome)
    return on_end(arguments, {fail(arguments, outcome.error()), "", sweep->points.front().experiment.name});
  return on_end(arguments, {.exit_code = print_outcome(arguments, *outcome, options.out),
                            .name = sweep->points.front().experiment.name});
}

}  // namespace

Command sweep_command() {
  return {
      "sweep",
      "run every combination of the lists in an experiment's [sweep], in virtual time",
      {{"EXPERIMENT", "a TOML file with a [sweep]"}},
      {{"--set", "SECTION.KEY=VALUE", "set a key; for one with a list: this value instead, or several", true},
       {"--out", "DIR",
        "folder of the runs, results.csv, results.json and curves.csv (default runs/NAME-sweep)"},
       {"--dry-run", "", "list the combinations and estimate their time, and exit"},
       {"--keep-going", "", "continue after a run that fails; the exit code is 1 at the end"},
       threads_flag("threads for all runs together"),
       {"--force", "", "repeat complete runs"},
       on_end_flag(),
       {"--json", "", "print results.json"}},
      run_sweep,
      "starling sweep experiments/churn.toml --out runs/churn"};
}

}  // namespace starling::cli
