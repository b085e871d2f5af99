// starling swarm: runs an experiment on processes of this machine.
#include "lab/swarm/swarm.h"

#include <unistd.h>

#include <climits>
#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/key.h"
#include "cli/shell/log.h"
#include "cli/shell/output.h"
#include "lab/report/report_page.h"
#include "lab/swarm/process_faults.h"
#include "node/all_reduce/collective.h"
#include "training/experiment/check.h"
#include "training/experiment/experiment_file.h"

namespace starling::cli {
namespace {

// The path of this program.
std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "starling";
}

int run(const Arguments& arguments) {
  training::Experiment experiment;
  if (Status read = read_experiment(experiment, arguments, arguments.get("EXPERIMENT")); !read) {
    return refuse(arguments, read.error().message);
  }
  if (arguments.has("--print-config")) {
    std::fputs(training::to_toml(experiment).c_str(), stdout);
    return kExitDone;
  }
  if (Status possible = lab::check_for_processes(experiment); !possible) {
    return refuse(arguments, possible.error().message);
  }
  // The peers read the key again; an error is reported once, here.
  if (const auto key = read_key(arguments, ""); !key) return refuse(arguments, key.error().message);
  if (traits(experiment.rule).all_at_once()) {
    if (!key_file(arguments).empty()) return refuse(arguments, kKeylessRule);
    if (Status there = node::check_collectives(); !there) return refuse(arguments, there.error().message);
  }
  set_default_end(experiment);
  Result<Materials> materials = gather_materials(experiment);
  if (!materials) return refuse(arguments, materials.error().message);
  Result<std::string> out = output_folder(experiment, arguments);
  if (!out) return refuse(arguments, out.error().message);
  Result<training::RunFolder> folder = training::RunFolder::create(*out, arguments.has("--force"));
  if (!folder) return refuse(arguments, folder.error().message);

  warn(training::warning_of_workers(experiment));
  warn(lab::warning_for_processes(experiment));
  lab::SwarmOptions options;
  options.program = own_program();
  options.key = key_file(arguments);
  if (log_is_json()) options.tell = [](const std::string& line) { tell(Told::progress, line); };
  const lab::SwarmOutcome outcome =
      lab::run_swarm(experiment, materials->plan, materials->data, options, *folder);
  if (!outcome.summary) {
    return outcome.exit_code == kExitBadInput ? refuse(arguments, outcome.error)
                                              : fail(arguments, outcome.error);
  }
  if (const Status drawn = lab::write_report(folder->path()); !drawn) warn(drawn.error().message);
  const std::string text = arguments.has("--json") ? training::to_json(*outcome.summary) + "\n"
                                                   : summary_text(*outcome.summary, folder->path());
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command swarm_command() {
  Command command{"swarm", "train N peers as processes on this machine, and evaluate the result"};
  command.positionals = {{"EXPERIMENT", "a TOML file; without it, the defaults", false}};
  command.flags = experiment_flags(Audience::run);
  command.flags.push_back(print_config_flag("Run"));
  command.flags.push_back(
      {"--out", "DIR", "folder of the results (default runs/NAME-SEED)", false, false, "Results", true});
  command.flags.push_back(
      {"--force", "", "write into a folder that contains results", false, false, "Results", true});
  Flag key = key_flag();
  key.section = "Run";
  key.common = true;
  command.flags.push_back(std::move(key));
  command.flags.push_back(
      {"--json", "", "print the summary as one JSON object", false, false, "Results", true});
  command.run = run;
  command.example =
      "starling swarm --peers 4 --model lenet --data glyphs --epochs 3\n"
      "starling swarm experiments/one-straggler.toml --seed 2 --json";
  return command;
}

}  // namespace starling::cli
