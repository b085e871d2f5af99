#include "cli/commands/named_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "cli/shell/log.h"
#include "topologies/graph_file.h"
#include "topologies/spectra/analysis.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::size_t kModelFileBytesMax = std::size_t{1} << 20;
constexpr std::size_t kGraphFileBytesMax = std::size_t{1} << 24;
constexpr std::string_view kPrefix = "file:";

bool is_graphml(const std::filesystem::path& path, std::string_view text) {
  if (path.extension() == ".graphml" || path.extension() == ".xml") return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '<' || text.starts_with("\xef\xbb\xbf<"));
}

// "weights 0.5 to 2".
std::string weights_text(const topologies::GraphFile& graph) {
  const auto [least, most] =
      std::ranges::minmax_element(graph.edges, {}, &topologies::GraphFile::Edge::weight);
  if (least->weight == most->weight) return "without weights";
  return "weights " + format_number(least->weight) + " to " + format_number(most->weight);
}

}  // namespace

Result<models::ModelText> resolve_model(const std::string& name) {
  if (!models::is_model_file(name)) return models::ModelText{name};
  const auto text = training::read_text(name, kModelFileBytesMax);
  if (!text) return text.error();
  auto model = models::read_model(*text, std::filesystem::path(name).stem().string());
  if (!model)
    return Error{name + ", line " + std::to_string(model.error().line) + ": " + model.error().message};
  return std::move(*model);
}

Result<std::string> resolve_topology(std::string_view name) {
  if (!name.starts_with(kPrefix)) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(name, ignored) && !topologies::Topology::parse(name))
      return Error{"topology '" + std::string(name) +
                   "' is unknown, but there is a file of this name; expected " + std::string(kPrefix) +
                   std::string(name) + " for the graph in it"};
    return std::string(name);
  }
  const std::string path(name.substr(kPrefix.size()));
  const auto wrong = [&](const Error& error) {
    return Error{"topology '" + std::string(name) + "': " + error.message};
  };
  if (path.empty()) return wrong({"the path is missing; expected file:PATH"});
  const auto text = training::read_text(path, kGraphFileBytesMax);
  if (!text) return wrong(text.error());
  auto graph = is_graphml(path, *text) ? topologies::read_graphml(*text) : topologies::read_edge_list(*text);
  if (!graph) return wrong(graph.error());
  if (const std::string file = std::filesystem::path(path).filename().string(); is_printable(file))
    graph->file = file;
  auto resolved = topologies::graph_name(*graph);
  return resolved ? resolved : wrong(resolved.error());
}

Result<topologies::Topology> read_topology(std::string_view name) {
  const auto resolved = resolve_topology(name);
  if (!resolved) return resolved.error();
  return topologies::Topology::parse(*resolved);
}

void tell_graph(std::string_view name) {
  static std::set<std::string, std::less<>> told;
  const auto graph = topologies::read_graph_name(name);
  if (!graph || graph->file.empty() || !told.emplace(name).second) return;
  const auto topology = topologies::Topology::parse(name);
  const auto gap = topology ? topologies::spectral_gap(topology->among(graph->nodes)) : std::nullopt;
  tell(Told::progress,
       fmt::format("topology {}: {} peers, {} link{}, {}, {}, spectral gap {}", topologies::shown_name(name),
                   graph->nodes, graph->edges.size(), graph->edges.size() == 1 ? "" : "s",
                   graph->directed ? "directed" : "undirected", weights_text(*graph),
                   gap ? fmt::format("{:.6g}", *gap) : "unknown"));
}

}  // namespace starling::cli
