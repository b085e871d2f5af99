// A communication topology as a value: it says who are a peer's neighbors among n peers, in a given round.
// Each peer asks for its own list alone, so nobody ever builds the whole graph (topologies/graph.h does, for
// people to look at). A family is a file of its own; to add one, write it (topologies/peers.h says how it
// looks), add it to Family below, and add its row to the table in topology.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "topologies/complete.h"
#include "topologies/exponential.h"
#include "topologies/peers.h"
#include "topologies/ring.h"
#include "topologies/uniform.h"

namespace starling::topologies {

using Family = std::variant<Complete, Ring, Exponential, Uniform>;

class Topology {
 public:
  // From a name, with parameters where the family has some ("small-world:k=4,p=0.1"). An unknown name is an
  // Error that lists the known ones; so is a parameter that the family does not take.
  static Result<Topology> parse(std::string_view name);

  const std::string& name() const { return name_; }  // as it was parsed

  // Sorted, without `peer` itself; empty where there are no others. One peer's list costs no more than its
  // length (times its logarithm). REQUIRES: peer < peers.
  std::vector<std::uint32_t> neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t round) const;

  // After how many rounds the neighbors repeat: 1 for a static topology.
  std::uint64_t period(std::uint32_t peers) const;

 private:
  Topology(std::string name, Family family) : name_(std::move(name)), family_(family) {}
  std::string name_;
  Family family_;
};

struct TopologyEntry {
  const char* name;         // with its parameters' usual values
  const char* description;  // one line
};
// The known families, for `topology list`.
std::span<const TopologyEntry> names();

}  // namespace starling::topologies
