// A communication topology by its name: "ring", "small-world:k=4,p=0.1". For a given set of peers it is a
// Schedule, from which each peer computes only its own links. topologies/graph.h builds the whole graph for
// analysis and drawings; topologies/family.h describes how to add a family.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topologies/family.h"
#include "topologies/schedule.h"

namespace starling::topologies {

struct TopologyEntry {
  const char* name;          // with the usual values of its parameters
  const char* description;   // one line
  bool placeholder = false;  // a part of the name is a placeholder, so it does not parse
};
// The known families, for `topology list`.
std::span<const TopologyEntry> names();

struct FamilyRow {
  TopologyEntry entry;
  Result<Family> (*make)(Name& name);  // null: Topology::parse() handles it
};
// All families, in the order of lists. Graphs from files are last.
std::span<const FamilyRow> family_rows();

class Topology {
 public:
  // From a family's name with its parameters, or from a name that contains a graph ("edges:...", see
  // topologies/graph_file.h). An unknown name or parameter is an Error that lists the known ones. "file:..."
  // is an Error, too: the command line reads files and replaces these names.
  static Result<Topology> parse(std::string_view name, std::span<const FamilyRow> table = family_rows());

  const std::string& name() const { return name_; }  // as it was parsed

  // Whether the family has a graph for this number of peers; the Error names the possible ones.
  Status exists(std::uint32_t peers) const;

  // For a graph from a file: the only number of peers for which it has a graph.
  std::optional<std::uint32_t> only_peers() const { return family_.only_peers; }

  // For any number of vertices, at least one: a similar connected graph if the family has none.
  Schedule among(std::span<const VertexKey> vertices) const { return family_.among(vertices); }
  // Among p0, p1, ..., the names that the launcher gives its peers.
  Schedule among(std::uint32_t peers) const { return among(default_keys(peers)); }

 private:
  Topology(std::string name, Family family) : name_(std::move(name)), family_(std::move(family)) {}
  std::string name_;
  Family family_;
};

}  // namespace starling::topologies
