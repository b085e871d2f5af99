#include "topologies/topology.h"

#include <array>
#include <vector>

#include "base/text.h"
#include "topologies/graph_file.h"
#include "topologies/name.h"

namespace starling::topologies {
namespace {

struct Row {
  const char* family;
  Result<Family> (*make)(Name& name);
};

// The two tables have one order: what is parsed, and what people read. A graph of one's own comes last.
constexpr std::array<Row, 16> kRows = {{
    {"complete", make_complete},
    {"ring", make_ring},
    {"line", make_line},
    {"star", make_star},
    {"torus", make_torus},
    {"hypercube", make_hypercube},
    {"exponential", make_exponential},
    {"directed-exponential", make_directed_exponential},
    {"one-peer-exponential", make_one_peer_exponential},
    {"base", make_base},
    {"random-regular", make_random_regular},
    {"erdos-renyi", make_erdos_renyi},
    {"small-world", make_small_world},
    {"tree", make_tree},
    {"dumbbell", make_dumbbell},
    {"uniform", make_uniform},
}};
constexpr std::array<TopologyEntry, kRows.size() + 1> kEntries = {{
    {"complete", "everyone beside everyone"},
    {"ring", "peer i beside i - 1 and i + 1"},
    {"line", "the ring without the link that closes it"},
    {"star", "everyone beside peer 0, the hub"},
    {"torus", "a near-square grid whose rows and columns are closed to rings"},
    {"hypercube", "peer i beside i xor 2^k for every k; 2^d peers"},
    {"exponential", "peer i beside i +- 2^k for every 2^k < n: few links, fast mixing"},
    {"directed-exponential", "peer i sends to i + 2^k for every 2^k < n"},
    {"one-peer-exponential", "peer i sends to i + 2^r in round r: one link at a time, exact for 2^d peers"},
    {"base:k=1", "rounds of at most k links each after which the average is exact, for any number of peers"},
    {"random-regular:k=4", "exactly k links each, drawn at random (seed=)"},
    {"erdos-renyi", "each pair linked with probability p, by default 2 ln n / n (p=, seed=)"},
    {"small-world:k=4,p=0.1", "a ring of the k nearest, each link moved with probability p (seed=)"},
    {"tree", "the complete binary tree: peer i beside (i - 1) / 2"},
    {"dumbbell", "two complete halves joined by one link"},
    {"uniform", "a partner drawn uniformly from everyone at every exchange"},
    {"file:PATH", "a graph of one's own, from an edge list or GraphML", true},
}};

}  // namespace

Result<Topology> Topology::parse(std::string_view text) {
  if (text.starts_with("edges:")) {
    auto graph = read_graph_name(text);
    if (!graph) return graph.error();
    return Topology(std::string(text), graph_family(std::move(*graph)));
  }
  if (text.starts_with("file:"))
    return Error{
        "topology '" + std::string(text) +
        "' is a file, which only the command line reads; a name that holds the graph, 'edges:...', is right"};
  auto name = Name::parse(text);
  if (!name) return name.error();
  for (const Row& row : kRows) {
    if (name->family() != row.family) continue;
    auto family = row.make(*name);
    if (!family) return family.error();
    const auto finished = name->finish();
    if (!finished) return finished.error();
    return Topology(std::string(text), std::move(*family));
  }
  std::vector<std::string_view> known;
  for (const auto& entry : kEntries) known.push_back(entry.name);
  return Error{"topology '" + std::string(text) + "' is unknown; accepted are " + one_of(known)};
}

Status Topology::exists(std::uint32_t peers) const {
  if (peers == 0) return Error{"topology '" + name_ + "' among 0 peers does not exist; at least 1 is right"};
  return family_.exists ? family_.exists(peers) : Status(Done{});
}

std::span<const TopologyEntry> names() {
  return kEntries;
}

}  // namespace starling::topologies
