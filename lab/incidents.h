// What an experiment's faults mean in virtual time, for every driver of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "lab/faults.h"
#include "lab/virtual_network.h"
#include "training/experiment.h"

namespace starling::lab {

// All that happens once, but `join`, which is the time at which a machine starts.
std::vector<Incident> incidents_of(const training::Experiment& experiment);

// What recurs: each gives its next incident, drawn as time goes on (lab/recurrence.h).
using Recurring = std::function<std::optional<Incident>()>;
std::vector<Recurring> recurring_of(const training::Experiment& experiment);

// By how much a machine's step with this number takes longer that begins at `at`.
double slowness_of_step(std::span<const Slow> slow, Instant at, std::uint64_t step);

// The end of the pauses that cover `at`, or `at`. REQUIRES: they are in the order of their beginnings.
Instant awake_at(std::span<const Interval> pauses, Instant at);

}  // namespace starling::lab
