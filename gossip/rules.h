// Reads from a manifest's settings what the core needs to know about the run. The keys are those of the
// experiment file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "gossip/events.h"
#include "wire/messages.h"

namespace starling::gossip {

// `epoch_samples` is the size of the training set, by which training.epochs is counted. Settings that do not
// concern the core are skipped. A bad value is an Error that names its key.
Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples);

// Why this rule cannot follow this topology, in a sentence; nullopt if it can.
std::optional<std::string> obstacle_to(const RuleTraits& rule, const topologies::Topology& topology);

}  // namespace starling::gossip
