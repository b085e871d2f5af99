// Graphs that people bring along: read from the text of a file, and written into a topology's name, so that a
// peer who joins a swarm later gets the graph with the name and needs no file.
//
//   name   = "edges:" ["directed;"] nodes ";" group {";" group}
//   nodes  = count | label {"," label}           two at least
//   group  = number ":" target {"," target}      the links of one node
//   target = number ["*" weight]                 1 where no weight is given
//
// Numbers count the nodes from 0 in the order of `nodes`. An undirected link stands once, at either end. In a
// label everything but letters, digits, '.', '_', '~' and '-' is written as %XX, byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topologies/family.h"

namespace starling::topologies {

struct GraphFile {
  struct Edge {
    std::uint32_t from, to;
    double weight = 1;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  std::uint32_t nodes = 0;
  std::vector<std::string> labels;  // of the nodes in their order; empty where they are numbered
  bool directed = false;
  std::vector<Edge> edges;  // sorted, each once; where it is undirected from < to

  friend bool operator==(const GraphFile&, const GraphFile&) = default;
};

// The longest name of a graph, in bytes.
inline constexpr std::size_t kGraphNameBytesMax = 49'152;
// Weights are from 1 / this to this.
inline constexpr double kWeightMax = 1e9;

// All three: an Error, with the line (or the link) and what would be right, for what is no such text, a link
// from a node to itself, a link given twice with two weights, a weight out of its range, a node that nothing
// declares, a graph without links or of several pieces (a directed one: where some node cannot reach
// another).

// A link a line, "a b" or "a b weight", with white space between; '#' begins a comment; a first line
// "directed" makes links one-way. Where all nodes are whole numbers, they are 0 to n - 1; otherwise they are
// labels.
Result<GraphFile> read_edge_list(std::string_view text);
// GraphML (Brandes et al., "GraphML progress report", Graph Drawing 2001): one graph with its edgedefault,
// nodes by their ids, and, where there is a key for edges named "weight", its values. Ids 0 to n - 1 are
// numbers.
Result<GraphFile> read_graphml(std::string_view text);
// A name of the grammar above.
Result<GraphFile> read_graph_name(std::string_view name);

// The graph's name, from which read_graph_name makes the same graph again. An Error where it is too long.
Result<std::string> graph_name(const GraphFile& graph);

// The graph as a family; weights are Weights::relative. It exists for as many peers as it has nodes. Among
// others, nodes and peers are matched: labeled nodes to the peers of these names if there is at least one
// such peer, otherwise node i to vertex i. Then peers whose nodes are joined by a path through missing nodes
// alone are linked, and a peer that the graph does not know is linked to one that it does; both with the mean
// weight. So it stays in one piece.
Family graph_family(GraphFile graph);

}  // namespace starling::topologies
