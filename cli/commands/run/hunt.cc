// starling hunt: runs a deterministic fault simulation for many seeds and checks its invariants.
#include "lab/hunt/hunt.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kLeastPeers = 2, kMostPeers = 64;

// "17..18"
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto from = parse_number<std::uint64_t>(text.substr(0, dots));
  const auto to = parse_number<std::uint64_t>(text.substr(dots + 2));
  if (!from || !to || *from >= *to) return std::nullopt;
  return std::pair{*from, *to};
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const RuleTraits& rule : kRules)
    if (rule.exchanges()) names.emplace_back(rule.name);
  return names;
}

Status read_options(const Arguments& arguments, lab::HuntOptions& options) {
  const std::string seeds = arguments.get("--seeds").value_or("0..1000");
  const auto range = parse_range(seeds);
  if (!range)
    return Error{"--seeds: '" + seeds + "' is not FIRST..END with END above FIRST, such as 0..1000"};
  std::tie(options.from, options.to) = *range;
  if (Status read = read_number(arguments, "--peers", kLeastPeers, kMostPeers, options.peers); !read)
    return read;
  options.faults = arguments.get("--faults").value_or("all");
  if (!lab::Faults::named(options.faults))
    return Error{"--faults: '" + options.faults + "' is unknown; expected " + one_of(lab::Faults::names())};
  if (const auto text = arguments.get("--rule")) {
    options.rule = rule_named(*text);
    if (!options.rule || !traits(*options.rule).exchanges())
      return Error{"--rule: '" + *text + "' is unknown; expected " + one_of(rule_names())};
  }
  if (Status read = read_threads(arguments, options.threads); !read) return read;
  if (arguments.has("--trace") && options.to - options.from != 1)
    return Error{"--trace writes the run of one seed; --seeds has " +
                 std::to_string(options.to - options.from)};
  return Done{};
}

// Runs one seed and writes its story to `path`.
int trace(const Arguments& arguments, const lab::HuntOptions& options, const std::string& path,
          lab::HuntOutcome& outcome) {
  if (Status accepted = training::check_target(path); !accepted)
    return refuse(arguments, "--trace: " + accepted.error().message);
  std::string story;
  const lab::SeedOutcome seed = lab::hunt_seed(options, options.from, &story);
  outcome.totals = seed.totals;
  if (seed.violation) outcome.failure = {options.from, *seed.violation};
  const std::string text =
      fmt::format("Seed {} of {} ({})\n\n{}\n{}", options.from, options.faults,
                  lab::replay_line(options, options.from), story, lab::hunt_text(options, outcome));
  if (Status written = training::write_text(path, text); !written)
    return refuse(arguments, "--trace: " + written.error().message);
  return kExitDone;
}

int run_hunt(const Arguments& arguments) {
  lab::HuntOptions options;
  if (Status read = read_options(arguments, options); !read) return refuse(arguments, read.error());
  lab::HuntOutcome outcome;
  if (const auto path = arguments.get("--trace")) {
    if (const int code = trace(arguments, options, *path, outcome); code != kExitDone) return code;
  } else {
    const lab::Interrupts interrupts;
    options.interrupted = [&interrupts] { return interrupts.requested(); };
    const std::uint64_t all = options.to - options.from, every = std::max<std::uint64_t>(1, all / 1000);
    ProgressLine progress;
    options.progress = [&progress, all, every](std::uint64_t done) {
      if (done % every == 0) progress.show(fmt::format("{} of {} seeds", done, all));
    };
    outcome = lab::hunt(options);
    progress.clear();
  }
  print_out(arguments.has("--json") ? lab::to_json(options, outcome) + "\n"
                                    : lab::hunt_text(options, outcome));
  return outcome.failure ? kExitRunFailed : kExitDone;
}

}  // namespace

Command hunt_command() {
  return {"hunt",
          "search for seeds of faults under which the protocol violates an invariant",
          {},
          {{"--seeds", "FIRST..END", "the seeds, without END (default 0..1000)"},
           {"--peers", "N", "number of peers (default: drawn from 3 to 12 by each seed)"},
           {"--faults", "NAME", one_of(lab::Faults::names()) + " (default all)"},
           {"--rule", "NAME", one_of(rule_names()) + " (default: drawn by each seed)"},
           threads_flag("seeds at the same time"),
           {"--trace", "FILE", "write the run of one seed as a story"},
           {"--json", "", "print the result as one JSON object"}},
          run_hunt,
          "starling hunt --seeds 0..200\nstarling hunt --seeds 17..18 --trace story.txt"};
}

}  // namespace starling::cli
