// What an experiment's faults mean in virtual time, for every driver of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "lab/world/faults.h"
#include "lab/world/virtual_network.h"
#include "training/experiment/experiment.h"

namespace starling::lab {

// All that happens once, but `join`, which is the time at which a machine starts.
std::vector<Incident> incidents_of(const training::Experiment& experiment);

// What recurs: each gives its next incident, drawn as time goes on (lab/recurrence.h).
using Recurring = std::function<std::optional<Incident>()>;
std::vector<Recurring> recurring_of(const training::Experiment& experiment);

// A sentence on what the experiment sets and virtual machines do not have, devices of peers' own, or nothing.
std::string warning_for_simulation(const training::Experiment& experiment);

}  // namespace starling::lab
