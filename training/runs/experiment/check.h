// Which combinations of settings are possible. A key's parser (settings.h) checks the limits of one key.
#pragma once

#include <string>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

// Whether the settings of the optimizer fit it.
Status check_optimizer(const Experiment& experiment);

// Whether the rule can be combined with the payload, the pace and the racks; for all-reduce also with the
// workers, devices and faults.
Status check_rule(const Experiment& experiment);

// All of the above, the network's name, the schedule, devices, own settings and faults, and every key's own
// limits, for an experiment that was not read from text.
Status check(const Experiment& experiment);

// A sentence if more than two workers together step so far that a network may not learn; else empty.
std::string warning_of_workers(const Experiment& experiment);
// A sentence, with the rate that is needed, if pipeline.vertical_sync makes gradients too old for the
// learning rate; else empty.
std::string warning_of_vertical_sync(const Experiment& experiment);
// A sentence if a fault should have begun after the end of a run that took so many seconds; else empty.
std::string warning_of_late_faults(const Experiment& experiment, double seconds);

}  // namespace starling::training
