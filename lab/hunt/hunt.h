// The hunt for bugs of the protocol. Each seed draws a world (peers, topology, pace, network, a schedule of
// incidents), which runs through a time of faults and a time of recovery and must satisfy every statement of
// lab/hunt/checkers.h. The seed's number is enough to replay a failure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lab/hunt/checkers.h"
#include "lab/world/faults.h"
#include "lab/world/sabotage.h"

namespace starling::lab {

struct HuntOptions {
  std::uint64_t from = 0, to = 1;      // seeds, without `to`
  std::optional<std::uint32_t> peers;  // unset: drawn from 3 to 12
  std::string faults = "all";          // one of Faults::names()
  std::optional<Rule> rule;            // unset: drawn
  unsigned threads = 0;                // 0: all cores; does not change results
  // Called after each seed with the number of seeds done.
  std::function<void(std::uint64_t done)> progress;
  // Called between seeds: true ends the hunt.
  std::function<bool()> interrupted;
};

// Sums over the seeds. The counts of faults show that the seeds contained some.
struct HuntTotals : Checkers::Counts {
  std::uint64_t seeds = 0;
  Duration virtual_time{0};
  std::uint64_t happenings = 0;  // of the event queue
  std::uint64_t crashes = 0, leaves = 0, restarts = 0, pauses = 0, slownesses = 0, partitions = 0, cuts = 0,
                clogs = 0, resets = 0, half_opens = 0, rewirings = 0, losses = 0, lies = 0, routers = 0,
                moves = 0, name_failures = 0;
  std::uint64_t connections_broken = 0;
};

struct SeedOutcome {
  std::optional<Violation> violation;
  std::uint64_t trace_hash = 0;
  HuntTotals totals;
};

// Runs one seed. `story`, unless null, receives a description of the run; `bug`, if given, is planted.
SeedOutcome hunt_seed(const HuntOptions& options, std::uint64_t seed, std::string* story = nullptr,
                      std::optional<PlantedBug> bug = std::nullopt);

struct HuntOutcome {
  struct Failure {
    std::uint64_t seed = 0;
    Violation violation;
  };
  HuntTotals totals;
  std::optional<Failure> failure;  // of the lowest failing seed
};
// Runs all seeds, until one fails. Every 64th seed runs twice and must give the same trace (statement 10).
// If an assertion fails, the line that replays its seed is written to standard error.
// REQUIRES: Faults::named(options.faults), from < to.
HuntOutcome hunt(const HuntOptions& options);

// The outcome as text, and as one JSON object (without a newline).
std::string hunt_text(const HuntOptions& options, const HuntOutcome& outcome);
std::string to_json(const HuntOptions& options, const HuntOutcome& outcome);

// "starling hunt --seeds 17..18 --faults all --peers 5 --rule d-psgd"
std::string replay_line(const HuntOptions& options, std::uint64_t seed);

}  // namespace starling::lab
