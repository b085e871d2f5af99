// The hunt for faults: for every seed a world is drawn (peers, topology, pace, network, a schedule of
// incidents), runs through a time of faults and a time of healing, and must satisfy every statement of
// lab/checkers.h. A seed that does not is replayed by its number alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lab/hunt/checkers.h"
#include "lab/world/faults.h"
#include "lab/world/sabotage.h"

namespace starling::lab {

struct HuntOptions {
  std::uint64_t from = 0, to = 1;      // seeds; `to` is not one of them
  std::optional<std::uint32_t> peers;  // drawn from 3 to 12 where not given
  std::string faults = "all";          // one of Faults::names()
  std::optional<Rule> rule;            // drawn where not given
  unsigned threads = 0;                // 0: all cores; never changes a result
  // Told now and then: seeds done.
  std::function<void(std::uint64_t done)> progress;
  // Asked between seeds: true ends the hunt.
  std::function<bool()> interrupted;
};

// So that one sees that faults did happen.
struct HuntTotals {
  std::uint64_t seeds = 0;
  double virtual_seconds = 0;
  std::uint64_t happenings = 0;  // of the event queue
  std::uint64_t crashes = 0, leaves = 0, restarts = 0, pauses = 0, slownesses = 0, partitions = 0, cuts = 0,
                clogs = 0, resets = 0, half_opens = 0, rewirings = 0, losses = 0;
  std::uint64_t poison_refused = 0, mutations_refused = 0;  // chunks, frames
  std::uint64_t connections_broken = 0;
  std::uint64_t exchanges_completed = 0, exchanges_aborted = 0, half_applied_chunks = 0;

  HuntTotals& operator+=(const HuntTotals& other);
};

struct SeedOutcome {
  std::optional<Violation> violation;
  std::uint64_t trace_hash = 0;
  HuntTotals totals;
};

// One seed. `story`, if given, gets the replay in sentences; `bug`, if given, is planted.
SeedOutcome hunt_seed(const HuntOptions& options, std::uint64_t seed, std::string* story = nullptr,
                      std::optional<PlantedBug> bug = std::nullopt);

struct HuntOutcome {
  struct Failure {
    std::uint64_t seed = 0;
    Violation violation;
  };
  HuntTotals totals;
  std::optional<Failure> failure;  // of the lowest seed that has one, among those begun
};
// Every 64th seed runs twice and must give the same trace (statement 10).
// An assertion that fails on the way is followed, on standard error, by the line that replays its seed.
// REQUIRES: Faults::named(options.faults), from < to.
HuntOutcome hunt(const HuntOptions& options);

// What a hunt did, for people and as one JSON object (without a newline).
std::string summary_text(const HuntOptions& options, const HuntOutcome& outcome);
std::string to_json(const HuntOptions& options, const HuntOutcome& outcome);

// "starling hunt --seeds 17..18 --faults all --peers 5 --rule d-psgd"
std::string replay_line(const HuntOptions& options, std::uint64_t seed);

}  // namespace starling::lab
