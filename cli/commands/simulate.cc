// starling simulate: runs an experiment in virtual time.
#include "lab/simulate/simulate.h"
#include "lab/interrupts.h"
#include "lab/report/report_page.h"
#include "lab/simulate/incidents.h"

#include <malloc.h>

#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/numbers.h"
#include "cli/shell/log.h"
#include "cli/shell/output.h"
#include "lab/swarm/process_faults.h"
#include "training/experiment/check.h"
#include "training/experiment/experiment_file.h"

namespace starling::cli {
namespace {

constexpr Duration kCheckpointEvery = std::chrono::minutes(5);

// A line on standard error that is redrawn at every percent, if that is a terminal.
class Progress {
 public:
  void show(double seconds, double fraction) {
    const int percent = static_cast<int>(fraction * 100);
    if (!terminal_ || percent == percent_) return;
    percent_ = percent;
    std::fprintf(stderr, "\r%3d %%, %.1f s of virtual time", percent, seconds);
  }
  void clear() const {
    if (percent_ >= 0) std::fputs("\r\033[K", stderr);
  }

 private:
  bool terminal_ = may_redraw();
  int percent_ = -1;
};

int run(const Arguments& arguments) {
  training::Experiment experiment;
  if (Status read = read_experiment(experiment, arguments, arguments.get("EXPERIMENT")); !read) {
    return refuse(arguments, read.error().message);
  }
  if (arguments.has("--print-config")) {
    std::fputs(training::to_toml(experiment).c_str(), stdout);
    return kExitDone;
  }
  set_default_end(experiment);
  lab::SimulateOptions options;
  options.data_root = data_root();
  if (Status read = read_number(arguments, "--threads", 1U, kMostThreads, options.threads); !read)
    return refuse(arguments, read.error().message);
  if (Result<Materials> materials = gather_materials(experiment); !materials) {
    return refuse(arguments, materials.error().message);
  }
  Result<std::string> out = output_folder(experiment, arguments);
  if (!out) return refuse(arguments, out.error().message);
  options.resume = arguments.has("--resume");
  Duration checkpoint_every = kCheckpointEvery;
  if (const auto text = arguments.get("--checkpoint-every")) {
    const auto every = parse_duration(*text);
    if (!every || every->count() < 0)
      return refuse(arguments, "--checkpoint-every: '" + text->substr(0, 80) +
                                   "' is not a time such as 30s; 0s means never");
    checkpoint_every = *every;
  }
  Result<training::RunFolder> folder = options.resume
                                           ? training::RunFolder::go_on(*out)
                                           : training::RunFolder::create(*out, arguments.has("--force"));
  if (!folder) return refuse(arguments, folder.error().message);

  warn(training::warning_of_workers(experiment));
  warn(lab::warning_for_simulation(experiment));
  mallopt(M_ARENA_MAX, 1);  // several heaps take a quarter more memory and save no time
  const lab::Interrupts interrupts;
  options.interrupted = [&interrupts] { return interrupts.requested(); };
  auto written_at = std::chrono::steady_clock::now();
  if (checkpoint_every.count() > 0) {
    options.checkpoint_due = [&written_at, checkpoint_every] {
      const auto now = std::chrono::steady_clock::now();
      if (now - written_at < checkpoint_every) return false;
      written_at = now;
      return true;
    };
  }
  options.notice = [](const std::string& sentence) { warn(sentence); };
  Progress progress;
  options.progress = [&progress](double seconds, double fraction) { progress.show(seconds, fraction); };
  Result<training::Summary> summary = lab::simulate(experiment, options, *folder);
  progress.clear();
  if (!summary) return fail(arguments, summary.error().message);
  if (const Status drawn = lab::write_report(folder->path()); !drawn) warn(drawn.error().message);
  const std::string text =
      arguments.has("--json") ? training::to_json(*summary) + "\n" : summary_text(*summary, folder->path());
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command simulate_command() {
  Command command{"simulate", "run an experiment in virtual time: deterministic, on any number of threads"};
  command.positionals = {{"EXPERIMENT", "a TOML file; without it, the defaults", false}};
  command.flags = experiment_flags(Audience::run);
  command.flags.push_back(print_config_flag("Run"));
  command.flags.push_back({"--threads", "N",
                           "threads that compute (default: all cores); does not change results", false, false,
                           "Run"});
  command.flags.push_back(
      {"--out", "DIR", "folder of the results (default runs/NAME-SEED)", false, false, "Results", true});
  command.flags.push_back({"--checkpoint-every", "TIME",
                           "write a checkpoint into the folder of the results at this interval of real time; "
                           "0s: never (default 5m)",
                           false, false, "Results"});
  command.flags.push_back(
      {"--resume", "",
       "resume from the folder's checkpoint; the results equal those of a run that was never stopped", false,
       false, "Results"});
  command.flags.push_back(
      {"--force", "", "write into a folder that contains results", false, false, "Results", true});
  command.flags.push_back(
      {"--json", "", "print the summary as one JSON object", false, false, "Results", true});
  command.run = run;
  command.example =
      "starling simulate --peers 16 --topology ring --slow 3=10\n"
      "starling simulate experiments/one-straggler.toml --rule none";
  return command;
}

}  // namespace starling::cli
