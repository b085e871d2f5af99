#include "cli/commands/run_command.h"

#include "cli/commands/experiment_flags.h"
#include "cli/shell/output.h"
#include "lab/report/report.h"
#include "training/experiment/experiment_file.h"

namespace starling::cli {

Command run_command(std::string path, std::string summary, const std::vector<Flag>& flags, RunExperiment run,
                    std::string example) {
  Command command{std::move(path), std::move(summary)};
  command.positionals = {{"EXPERIMENT", "a TOML file (default: the default settings)", false}};
  command.flags = experiment_flags(Audience::run);
  command.flags.push_back(print_config_flag("Run"));
  for (const auto& [name, placeholder, help] :
       {std::tuple("--out", "DIR", "folder of the results (default runs/NAME-SEED)"),
        {"--force", "", "write into a folder that contains results"},
        {"--json", "", "print the summary as one JSON object"}}) {
    command.flags.push_back(
        {.name = name, .placeholder = placeholder, .help = help, .section = "Results", .common = true});
  }
  command.flags.insert(command.flags.end(), flags.begin(), flags.end());
  command.run = [run = std::move(run)](const Arguments& arguments) {
    training::Experiment experiment;
    if (Status read = read_experiment(experiment, arguments, arguments.get("EXPERIMENT")); !read)
      return refuse(arguments, read.error());
    if (arguments.has("--print-config")) return print_out(training::to_toml(experiment));
    set_default_end(experiment);
    return run(arguments, experiment);
  };
  command.example = std::move(example);
  return command;
}

int print_results(const Arguments& arguments, const training::Summary& summary, const std::string& folder) {
  if (const Status drawn = lab::write_report(folder); !drawn) warn(drawn.error().message);
  return print_out(arguments.has("--json") ? training::to_json(summary) + "\n"
                                           : summary_text(summary, folder));
}

}  // namespace starling::cli
