// starling swarm: runs an experiment on processes of this machine.
#include "lab/swarm/swarm.h"

#include "base/program.h"
#include "cli/commands/commands.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/contents.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/run_place.h"
#include "cli/commands/run/secrets.h"
#include "cli/shell/output.h"
#include "lab/swarm/process_faults.h"
#include "node/all_reduce/collective.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/check.h"

namespace starling::cli {
namespace {

// Where the first peer serves its page; unset without --http.
Result<std::optional<Address>> read_page(const Arguments& arguments, const training::Experiment& experiment) {
  const auto text = arguments.get("--http");
  if (!text) return std::optional<Address>();
  if (traits(experiment.gossip.rule).all_at_once())
    return Error{"--http: the peers of a run without gossip serve no page"};
  const auto at = Address::parse(*text);
  if (!at) return Error{"--http: " + at.error().message};
  if (at->port == 0) return Error{"--http: give the page a port, such as " + at->host + ":7180"};
  tell(Told::progress, "page: http://" + to_string(*at) + "/");
  return std::optional(*at);
}

int run_swarm(const Arguments& arguments, const training::Experiment& experiment) {
  if (Status possible = lab::check_for_processes(experiment); !possible)
    return refuse(arguments, possible.error());
  // The peers read the key again; an error is reported once, here.
  if (const auto key = read_key(arguments, ""); !key) return refuse(arguments, key.error());
  if (traits(experiment.gossip.rule).all_at_once()) {
    if (!key_file(arguments).empty())
      return refuse(arguments, Error{keyless_rule(std::string(traits(experiment.gossip.rule).name))});
    if (Status there = node::check_collectives(); !there) return refuse(arguments, there.error());
  }
  const auto page = read_page(arguments, experiment);
  if (!page) return refuse(arguments, page.error());
  Result<Materials> materials = gather_materials(experiment);
  if (!materials) return refuse(arguments, materials.error());
  tell_decisions(materials->data);
  tell_graph(experiment.gossip.topology);
  const auto contents = contents_now(experiment, *materials);
  if (!contents) return refuse(arguments, contents.error());
  warn_of_changes(experiment, *contents, arguments.get("EXPERIMENT").value_or(""));
  const auto place = place_of_run(experiment, arguments, "swarm", "", [&] { return contents; });
  if (!place) return refuse(arguments, place.error());
  if (place->done) return print_done(arguments, *place->done, place->path);

  warn(training::warning_of_workers(experiment));
  warn(training::warning_of_vertical_sync(experiment));
  warn(training::warning_of_precision(experiment, false));
  warn(lab::warning_for_processes(experiment));
  lab::SwarmOptions options;
  const auto program = program_path();
  options.program = program.empty() ? "starling" : program.string();
  options.key = key_file(arguments);
  options.contents = *contents;
  options.http = *page;
  if (log_is_json()) options.tell = [](const std::string& line) { tell(Told::progress, line); };
  const lab::SwarmOutcome outcome =
      lab::run_swarm(experiment, materials->plan, materials->data, options, *place->folder);
  if (!outcome.summary) {
    if (outcome.exit_code == kExitBadInput) return refuse(arguments, outcome.error);
    fail(arguments, outcome.error);
    return outcome.exit_code == kExitInterrupted ? kExitInterrupted : kExitRunFailed;
  }
  warn(training::warning_of_late_faults(experiment, outcome.summary->seconds));
  return print_results(arguments, *outcome.summary, place->path, "");
}

}  // namespace

Command swarm_command() {
  Flag key = key_flag();
  key.section = "Run";
  key.common = true;
  const Flag page{.name = "--http",
                  .placeholder = "ADDR:PORT",
                  .help = "serve the live page of the first peer here, with links to those of the others",
                  .section = "Run"};
  return run_command("swarm", "train N peers as processes on this machine, and evaluate the result",
                     {key, page}, run_swarm,
                     "starling swarm --peers 4 --model lenet --data glyphs --epochs 3\n"
                     "starling swarm experiments/late-joiners.toml --seed 2 --json");
}

}  // namespace starling::cli
