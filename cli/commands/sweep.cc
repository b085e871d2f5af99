// starling sweep: many experiments in virtual time, from one file with lists.
#include "lab/simulate/sweep.h"

#include <cstdlib>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/flag_values.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "lab/report/report.h"

namespace starling::cli {
namespace {

constexpr int kExitStopped = 130;  // as of a program that Ctrl-C stops

// Checks all experiments before the first one runs. Experiments that share data and network load them once.
Status prepare(training::Sweep& sweep) {
  std::set<std::tuple<std::string, std::string, std::string, std::uint32_t>> seen;
  for (training::SweepPoint& point : sweep.points) {
    training::Experiment& experiment = point.experiment;
    Status sound = resolve_names(experiment);
    if (sound) {
      set_default_end(experiment);
      sound = check_experiment(experiment);
    }
    if (sound && seen.emplace(experiment.model.name, experiment.model.layers, experiment.data.source,
                              experiment.training.crop)
                     .second) {
      if (const auto materials = gather_materials(experiment); !materials) sound = materials.error();
    }
    if (!sound) return Error{point.name + ": " + sound.error().message};
  }
  return Done{};
}

int run_sweep(const Arguments& arguments) {
  const std::string file = arguments.get("EXPERIMENT").value_or("");
  const auto sets = split_sets(arguments);
  if (!sets) return refuse(arguments, sets.error());
  Result<training::Sweep> sweep = training::read_sweep(file, std::getenv, *sets);
  if (!sweep) return refuse(arguments, sweep.error());
  if (Status sound = prepare(*sweep); !sound) return refuse(arguments, sound.error());

  lab::SweepOptions options;
  options.data_root = data_root();
  options.force = arguments.has("--force");
  options.out = arguments.get("--out").value_or("runs/" + sweep->points.front().experiment.name + "-sweep");
  if (options.out.empty()) return refuse(arguments, "--out: the path is empty");
  if (Status read = read_threads(arguments, options.threads); !read) return refuse(arguments, read.error());
  const lab::Interrupts interrupts;
  options.interrupted = [&interrupts] { return interrupts.requested(); };
  std::size_t ran = 0;
  options.finished = [&ran](const training::SweepPoint& point, std::size_t done, std::size_t all,
                            double seconds, const std::string& /*summary*/) {
    ++ran;
    const double left = seconds / static_cast<double>(ran) * static_cast<double>(all - done);
    tell(Told::progress, fmt::format("{} of {}: {}; {:.0f} s so far, about {:.0f} s left", done, all,
                                     point.name, seconds, left));
  };
  const Result<lab::SweepOutcome> outcome = lab::run_sweep(*sweep, options);
  if (!outcome) return fail(arguments, outcome.error());
  if (outcome->ran + outcome->kept > 0) {
    if (const Status drawn = lab::write_report(options.out); !drawn) warn(drawn.error().message);
  }
  print_out(arguments.has("--json")
                ? outcome->json
                : outcome->table +
                      fmt::format("\n{} experiments ran, {} were already complete\nresults   {}\n",
                                  outcome->ran, outcome->kept, options.out));
  if (!outcome->interrupted) return kExitDone;
  tell(Told::progress, "starling sweep: interrupted; repeat the command to continue");
  return kExitStopped;
}

}  // namespace

Command sweep_command() {
  return {"sweep",
          "run every combination of the lists in an experiment's [sweep], in virtual time",
          {{"EXPERIMENT", "a TOML file with a [sweep]"}},
          {{"--set", "SECTION.KEY=VALUE", "set a key of the file that has no list", true},
           {"--out", "DIR", "folder of the runs, results.csv and results.json (default runs/NAME-sweep)"},
           threads_flag("threads for all runs together"),
           {"--force", "", "repeat complete runs"},
           {"--json", "", "print results.json"}},
          run_sweep,
          "starling sweep stragglers.toml --out runs/stragglers"};
}

}  // namespace starling::cli
