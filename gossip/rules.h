// What the core needs to know about a run. The settings of the run's manifest say it, with the keys of the
// experiment file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "topologies/topology.h"
#include "wire/messages.h"
#include "wire/rules/pace.h"
#include "wire/rules/policy.h"
#include "wire/rules/rule.h"

namespace starling::gossip {

// The index-th of `of` equal parts of an arena.
struct Part {
  std::uint32_t index = 0, of = 1;
  friend bool operator==(const Part&, const Part&) = default;
};

// Roles under the rules with parameter servers (DistBelief: Dean et al., NIPS 2012; Project Adam: Chilimbi et
// al., OSDI 2014). The role follows from a member's name, so all peers with the manifest agree without
// messages: s0 ... s(shards - 1) each serve a part of the model. The next `racks` servers each serve the
// whole model to one rack of workers, and push to the former as a worker does. All other members are workers:
// they train and push.
struct Servers {
  std::uint32_t shards = 1;      // servers that each hold a part of the model
  std::uint32_t racks = 0;       // servers between them and the workers
  std::uint64_t staleness = 3;   // bounded rules: pushes by which a worker may be ahead of the slowest
  std::optional<double> rate{};  // the share of a push that is applied; unset: 1 / number of pushing peers
  friend bool operator==(const Servers&, const Servers&) = default;
};

struct Role {
  enum class Kind : std::uint8_t { worker, shard, rack } kind = Kind::worker;
  std::uint32_t number = 0;  // within its kind; 0 for workers
  friend bool operator==(const Role&, const Role&) = default;
};

Role role_of(std::string_view name, const Servers& servers);

// When a run ends for a peer: at the first limit reached. Without limits it runs until it is told to end.
struct End {
  std::optional<std::uint64_t> swarm_samples;  // consumed by all peers that ever took part, as far as known
  std::optional<std::uint64_t> steps;          // of its own
  std::optional<Duration> time;                // since the run began
};

struct RunRules {
  topologies::Topology topology;
  Rule rule = Rule::pairwise;
  Pace pace{};
  End end{};
  Partners partners = Partners::uniform;
  Shares shares = Shares::equal;
  Servers servers{};
  std::uint32_t fragments = 1;  // rules with outer steps: parts of the arena that take turns
};

// `epoch_samples` is the size of the training set, by which training.epochs is counted. Settings that do not
// concern the core are skipped. A bad value is an Error that names its key.
Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples);

// Why this rule cannot follow this topology, in a sentence; nullopt if it can.
std::optional<std::string> obstacle_to(const RuleTraits& rule, const topologies::Topology& topology);

}  // namespace starling::gossip
