// Topologies from files: the command line reads them, and what goes on is a name that holds the graph, so
// that the run's record, its peers and whoever joins later need no file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::cli {

// Largest file of a graph, in bytes.
inline constexpr std::size_t kGraphFileBytesMax = std::size_t{1} << 24;

// "file:PATH" as the name of the graph in that file, GraphML or an edge list ("edges:...",
// topologies/graph_file.h); any other name as it is. The path is relative to the working folder. GraphML is
// known by its extension, .graphml or .xml, or by a '<' in front. An Error names the file.
Result<std::string> resolve_topology(std::string_view name);

}  // namespace starling::cli
