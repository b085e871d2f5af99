#include "topologies/topology.h"

#include <array>
#include <vector>

#include "base/text.h"
#include "topologies/graph_file.h"
#include "topologies/name.h"

namespace starling::topologies {
namespace {

constexpr std::array<FamilyRow, 17> kRows = {{
    {{"complete", "every peer linked to every other"}, make_complete},
    {{"ring", "peer i linked to i - 1 and i + 1"}, make_ring},
    {{"line", "the ring without one link"}, make_line},
    {{"star", "every peer linked to peer 0, the hub"}, make_star},
    {{"torus", "a near-square grid whose rows and columns are rings"}, make_torus},
    {{"hypercube", "peer i linked to i xor 2^k for every k; 2^d peers"}, make_hypercube},
    {{"exponential", "peer i linked to i +- 2^k for every 2^k < n: few links, fast mixing"},
     make_exponential},
    {{"directed-exponential", "peer i sends to i + 2^k for every 2^k < n"}, make_directed_exponential},
    {{"one-peer-exponential", "peer i sends to i + 2^r in round r: one link at a time, exact for 2^d peers"},
     make_one_peer_exponential},
    {{"base:k=1", "rounds of at most k links per peer, exact after a period, for any number of peers"},
     make_base},
    {{"random-regular:k=4", "exactly k links per peer, drawn at random (seed=)"}, make_random_regular},
    {{"erdos-renyi", "each pair linked with probability p, by default 2 ln n / n (p=, seed=)"},
     make_erdos_renyi},
    {{"small-world:k=4,p=0.1", "a ring of the k nearest peers, each link moved with probability p (seed=)"},
     make_small_world},
    {{"tree", "the complete binary tree: peer i linked to (i - 1) / 2"}, make_tree},
    {{"dumbbell", "two complete halves joined by one link"}, make_dumbbell},
    {{"uniform", "a partner drawn uniformly from all peers for every exchange"}, make_uniform},
    {{"file:PATH", "a graph from an edge list or GraphML", true}, nullptr},
}};

std::string_view family_of(const TopologyEntry& entry) {
  const std::string_view name = entry.name;  // "base:k=1"
  return name.substr(0, name.find(':'));
}

}  // namespace

std::span<const FamilyRow> family_rows() { return kRows; }

Result<Topology> Topology::parse(std::string_view text, std::span<const FamilyRow> table) {
  if (text.starts_with("edges:")) {
    auto graph = read_graph_name(text);
    if (!graph) return graph.error();
    return Topology(std::string(text), graph_family(std::move(*graph)));
  }
  if (text.starts_with("file:"))
    return Error{"topology '" + std::string(text) +
                 "' is a file, which only the command line reads; expected a name that contains the graph, "
                 "'edges:...'"};
  auto name = Name::parse(text);
  if (!name) return name.error();
  for (const FamilyRow& row : table) {
    if (row.make == nullptr || name->family() != family_of(row.entry)) continue;
    auto family = row.make(*name);
    if (!family) return family.error();
    const auto finished = name->finish();
    if (!finished) return finished.error();
    return Topology(std::string(text), std::move(*family));
  }
  std::vector<std::string_view> known;
  for (const FamilyRow& row : table) known.push_back(row.entry.name);
  return Error{"topology '" + std::string(text) + "' is unknown; accepted are " + one_of(known)};
}

Status Topology::exists(std::uint32_t peers) const {
  if (peers == 0) return Error{"topology '" + name_ + "' does not exist for 0 peers; expected at least 1"};
  return family_.exists ? family_.exists(peers) : Status(Done{});
}

std::span<const TopologyEntry> names() {
  static const std::vector<TopologyEntry> kEntries = [] {
    std::vector<TopologyEntry> entries;
    for (const FamilyRow& row : kRows) entries.push_back(row.entry);
    return entries;
  }();
  return kEntries;
}

}  // namespace starling::topologies
