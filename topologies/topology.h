// A communication topology by its name: "ring", "small-world:k=4,p=0.1". Among particular peers it is a
// Schedule, of which each peer asks for its own links alone; nobody needs the whole graph (topologies/graph.h
// builds it, for people to look at). How to add a family is in topologies/family.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topologies/family.h"
#include "topologies/schedule.h"

namespace starling::topologies {

class Topology {
 public:
  // From a name, with parameters where the family has some, or one that holds a whole graph ("edges:...", see
  // topologies/graph_file.h). An unknown name is an Error that lists the known ones; so is a parameter that
  // the family does not take, and "file:...": the command line reads files, and puts their graphs into names.
  static Result<Topology> parse(std::string_view name);

  const std::string& name() const { return name_; }  // as it was parsed

  // Whether the family has a graph for so many peers; the Error says what is possible instead.
  Status exists(std::uint32_t peers) const;

  // For any number of vertices, one at least: where the family has no graph, the nearest connected one.
  Schedule among(std::span<const VertexKey> vertices) const { return family_.among(vertices); }
  // Among p0, p1, ..., as the launcher names its peers.
  Schedule among(std::uint32_t peers) const { return among(default_keys(peers)); }

 private:
  Topology(std::string name, Family family) : name_(std::move(name)), family_(std::move(family)) {}
  std::string name_;
  Family family_;
};

struct TopologyEntry {
  const char* name;          // with its parameters' usual values
  const char* description;   // one line
  bool placeholder = false;  // part of the name stands for something else, so it does not parse as it is
};
// The known families, for `topology list`.
std::span<const TopologyEntry> names();

}  // namespace starling::topologies
