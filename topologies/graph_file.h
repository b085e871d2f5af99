// User-defined graphs: parsed from the text of a file and encoded in the name of a topology, so a peer that
// joins a swarm gets the graph with the name and needs no file.
//
//   name   = "edges:" ["file=" file ";"] ["directed;"] nodes ";" group {";" group}
//   nodes  = count | label {"," label}           at least two
//   group  = number ":" target {"," target}      the links of one node
//   target = number ["*" weight]                 the default weight is 1
//
// Numbers are indices of nodes from 0, in the order of `nodes`. An undirected link appears once, at either
// end. `file` is the name of the graph's file, without folders: the graph is shown by it. In it and in a
// label, each byte that is not a letter, a digit, '.', '_', '~' or '-' is written as %XX.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topologies/family.h"

namespace starling::topologies {

struct GraphFile {
  std::string file = {};  // its name without folders; empty if the graph is not from a file
  struct Edge {
    std::uint32_t from, to;
    double weight = 1;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  std::uint32_t nodes = 0;
  std::vector<std::string> labels;  // of the nodes in order; empty if they are numbered
  bool directed = false;
  std::vector<Edge> edges;  // sorted, each once; from < to if the graph is undirected

  friend bool operator==(const GraphFile&, const GraphFile&) = default;
};

// Maximum length of a name, in bytes.
inline constexpr std::size_t kGraphNameBytesMax = 49'152;
// Weights are in [1 / kWeightMax, kWeightMax].
inline constexpr double kWeightMax = 1e9;

// The three parsers below return an Error, with the line or the link and the expected text, for a syntax
// error, a link from a node to itself, a link with two different weights, a weight out of range, an
// undeclared node, and a graph that has no links or is not connected (directed: strongly connected).

// One link per line, "a b" or "a b weight", separated by white space, commas or semicolons, with or without
// the attributes of networkx, "a b {'weight': 2}". '#' and '%' begin comments. A first line "directed" makes
// links one-way. A header with the columns source and target makes the text a table with these columns,
// weight and type (directed, undirected), as pandas and Gephi write it. Nodes are labels, or, if all are
// whole numbers, the numbers 0 to n - 1. An empty cell is an Error.
Result<GraphFile> read_edge_list(std::string_view text);
// GraphML (Brandes et al., "GraphML progress report", Graph Drawing 2001): one graph with its edgedefault,
// the ids of its nodes, and the values of the keys "weight" for edges, if any. Ids 0 to n - 1 are numbers.
Result<GraphFile> read_graphml(std::string_view text);
// A name of the grammar above.
Result<GraphFile> read_graph_name(std::string_view name);

// The name of the graph; read_graph_name() returns the same graph. An Error if the name is too long.
Result<std::string> graph_name(const GraphFile& graph);

// What people see of a topology's name: "file:g.txt" for a name that contains the graph of a file g.txt, and
// any other name unchanged.
std::string shown_name(std::string_view name);
// The name of a topology without that of its graph's file: equal for equal graphs.
std::string name_without_file(std::string_view name);

// The graph as a family; weights are Weights::relative. It exists for as many peers as the graph has nodes.
// Nodes are matched to peers: labeled nodes to the peers with these names if there is at least one such peer,
// otherwise node i to vertex i. For other sets of peers, two peers are linked if a path through missing nodes
// alone joins their nodes, and a peer without a node is linked to a peer that has one; both links have the
// mean weight. So the graph stays connected.
Family graph_family(GraphFile graph);

}  // namespace starling::topologies
