// Reads out of a manifest's settings what the core needs to know of the run. The keys are those of the
// experiment file.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "gossip/events.h"
#include "wire/messages.h"

namespace starling::gossip {

// `epoch_samples` is the size of the training set: an epoch has passed when the swarm has consumed so many.
// Settings of no concern to the core are skipped; a bad value is an Error that names its key.
Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples);

}  // namespace starling::gossip
