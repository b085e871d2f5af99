// The faults of an experiment as incidents in virtual time, for both drivers of a simulation.
// A fault `join` is not an incident: it is the time at which a machine starts.
#pragma once

#include <string>
#include <vector>

#include "lab/world/world_options.h"
#include "training/runs/experiment/experiment.h"

namespace starling::lab {

// The faults that happen once.
std::vector<Incident> incidents_of(const training::Experiment& experiment);

// Those that recur, drawn on demand (lab/recurrence.h).
std::vector<Recurring> recurring_of(const training::Experiment& experiment);

// A warning about settings that have no effect on virtual machines (devices of single peers); empty if there
// are none.
std::string warning_for_simulation(const training::Experiment& experiment);

}  // namespace starling::lab
