// The world of an experiment: its machines, their network, the incidents that befall them, and the rules that
// they exchange by.
#pragma once

#include "base/result.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"

namespace starling::lab {

// The peers come first, then the parameter servers. An Error names the setting that cannot be used.
Result<WorldOptions> world_of(const VirtualRun& run);

}  // namespace starling::lab
