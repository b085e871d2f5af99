// Which combinations of settings are possible. A key's own limits are its parser's (settings.h); here is what
// depends on several keys.
#pragma once

#include <string>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

// Whether the optimizer has what is set for it.
Status check_optimizer(const Experiment& experiment);

// Whether the rule can be combined with the payload, the pace and the racks; for all-reduce also with the
// workers, devices and faults.
Status check_rule(const Experiment& experiment);

// All of the above, the network's name, the schedule, devices, own settings and faults, and every key's own
// limits again for an experiment that was not read from text.
Status check(const Experiment& experiment);

// One sentence where more than two workers with an explicit learning rate together step so far that a network
// may not learn; else empty.
std::string warning_of_workers(const Experiment& experiment);

}  // namespace starling::training
