// Networks and topologies from files. Only the command line reads these files: a run continues with a name
// that contains the network's layers or the graph, so its record, its checkpoints and peers that join later
// do not need the file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/spec_text.h"
#include "topologies/topology.h"

namespace starling::cli {

// Reads the network from the file if `name` ends in ".toml"; returns any other name unchanged. A network
// without a name gets the file's name without ".toml". An Error names the file and the line.
Result<models::ModelText> resolve_model(const std::string& name);

// Turns "file:PATH" into a name that contains the graph ("edges:...", topologies/graph_file.h); returns any
// other name unchanged. The file is GraphML (extension .graphml or .xml, or it begins with '<') or an edge
// list, of at most 16 MiB; the new name contains the file's name, too. An Error names the file. The name of a
// file without "file:" that is no topology is an Error that suggests it.
Result<std::string> resolve_topology(std::string_view name);
Result<topologies::Topology> read_topology(std::string_view name);

// Prints a line with the size, the weights and the spectral gap of the graph in a topology's name, once per
// process; nothing for a topology that is not from a file.
void tell_graph(std::string_view name);

}  // namespace starling::cli
