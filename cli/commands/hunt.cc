// starling hunt: seeds of a deterministic fault simulation, each checked against every statement.
#include "lab/hunt/hunt.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/shell/log.h"
#include "cli/commands/numbers.h"
#include "lab/interrupts.h"

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

std::string names_text() {
  std::string text;
  for (const std::string& name : lab::Faults::names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string rules_text() {
  std::string text;
  for (const RuleTraits& rule : kRules)
    if (rule.exchanges()) text += (text.empty() ? "" : ", ") + std::string(rule.name);
  return text;
}

Status read_options(const Arguments& arguments, lab::HuntOptions& options) {
  const std::string seeds = arguments.get("--seeds").value_or("0..1000");
  const auto range = parse_range(seeds);
  if (!range)
    return Error{"--seeds: '" + seeds + "' is not FIRST..END with END beyond FIRST, such as 0..1000"};
  std::tie(options.from, options.to) = *range;
  if (const auto text = arguments.get("--peers")) {
    options.peers = parse_number<std::uint32_t>(*text);
    if (!options.peers || *options.peers < kLeastPeers || *options.peers > kMostPeers) {
      return Error{"--peers: '" + *text + "' is not a whole number from " + std::to_string(kLeastPeers) +
                   " to " + std::to_string(kMostPeers)};
    }
  }
  options.faults = arguments.get("--faults").value_or("all");
  if (!lab::Faults::named(options.faults))
    return Error{"--faults: '" + options.faults + "' is none of " + names_text()};
  if (const auto text = arguments.get("--rule")) {
    options.rule = rule_named(*text);
    if (!options.rule || !traits(*options.rule).exchanges())
      return Error{"--rule: '" + *text + "' is none of " + rules_text()};
  }
  if (Status read = read_number(arguments, "--threads", 1U, kMostThreads, options.threads); !read) return read;
  if (arguments.has("--trace") && options.to - options.from != 1)
    return Error{"--trace tells one seed's story; --seeds has " + std::to_string(options.to - options.from)};
  return Done{};
}

// One seed, with its story.
int trace(const Arguments& arguments, const lab::HuntOptions& options, const std::string& path,
          lab::HuntOutcome& outcome) {
  std::ofstream file(path, std::ios::trunc);
  if (!file) return refuse(arguments, "--trace: cannot write " + path);
  std::string story;
  const lab::SeedOutcome seed = lab::hunt_seed(options, options.from, &story);
  outcome.totals = seed.totals;
  if (seed.violation) outcome.failure = {options.from, *seed.violation};
  file << "Seed " << options.from << " of " << options.faults << " ("
       << lab::replay_line(options, options.from) << ")\n\n"
       << story << '\n'
       << lab::summary_text(options, outcome);
  file.flush();
  if (!file) return refuse(arguments, "--trace: cannot write " + path);
  return kExitDone;
}

int run(const Arguments& arguments) {
  lab::HuntOptions options;
  if (Status read = read_options(arguments, options); !read) return refuse(arguments, read.error().message);
  lab::HuntOutcome outcome;
  if (const auto path = arguments.get("--trace")) {
    if (const int code = trace(arguments, options, *path, outcome); code != kExitDone) return code;
  } else {
    const lab::Interrupts interrupts;
    options.interrupted = [&interrupts] { return interrupts.requested(); };
    const bool terminal = may_redraw();
    const std::uint64_t all = options.to - options.from, every = std::max<std::uint64_t>(1, all / 1000);
    if (terminal) {
      options.progress = [all, every](std::uint64_t done) {
        if (done % every == 0)
          std::fprintf(stderr, "\r%llu of %llu seeds", static_cast<unsigned long long>(done),
                       static_cast<unsigned long long>(all));
      };
    }
    outcome = lab::hunt(options);
    if (terminal) std::fputs("\r\033[K", stderr);
  }
  const std::string text =
      arguments.has("--json") ? lab::to_json(options, outcome) + "\n" : lab::summary_text(options, outcome);
  std::fputs(text.c_str(), stdout);
  return outcome.failure ? kExitRunFailed : kExitDone;
}

}  // namespace

Command hunt_command() {
  Command command{"hunt", "look for seeds of faults under which the protocol breaks a promise"};
  command.flags = {
      {"--seeds", "FIRST..END", "which seeds, END excluded (default 0..1000)"},
      {"--peers", "N", "how many peers (default: drawn from 3 to 12 by each seed)"},
      {"--faults", "NAME", names_text() + " (default all)"},
      {"--rule", "NAME", rules_text() + " (default: drawn by each seed)"},
      {"--threads", "N", "how many seeds at once (default: all cores); never changes a result"},
      {"--trace", "FILE", "write one seed's run as a story"},
      {"--json", "", "print the outcome as one JSON object"},
  };
  command.run = run;
  command.example = "starling hunt --seeds 0..200\nstarling hunt --seeds 17..18 --trace story.txt";
  return command;
}

}  // namespace starling::cli
