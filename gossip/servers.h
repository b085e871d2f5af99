// Roles under the rules with parameter servers (DistBelief: Dean et al., NIPS 2012; Project Adam: Chilimbi et
// al., OSDI 2014). The role follows from a member's name, so all peers with the manifest agree without
// messages: s0 ... s(shards - 1) each serve a part of the model. The next `racks` servers each serve the
// whole model to one rack of workers, and push to the former as a worker does. All other members are workers:
// they train and push.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace starling::gossip {

// The index-th of `of` equal parts of an arena.
struct Part {
  std::uint32_t index = 0, of = 1;
  friend bool operator==(const Part&, const Part&) = default;
};

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

inline Role role_of(std::string_view name, const Servers& servers) {
  if (name.size() < 2 || name.front() != 's') return {};
  const auto number = parse_number<std::uint32_t>(name.substr(1));
  if (!number || (name[1] == '0' && name.size() > 2)) return {};
  if (*number < servers.shards) return {Role::Kind::shard, *number};
  if (*number - servers.shards < servers.racks) return {Role::Kind::rack, *number - servers.shards};
  return {};
}

}  // namespace starling::gossip
