// starling topology list, starling topology show: who exchanges with whom, and how fast that mixes.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/topology_name.h"
#include "topologies/analysis.h"
#include "topologies/drawing.h"
#include "topologies/topology.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kMostPeers = 100'000;
// Larger drawings are a black disc.
constexpr std::uint32_t kMostPeersDrawn = 2000;

int list(const Arguments& arguments) {
  if (arguments.has("--json")) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const topologies::TopologyEntry& entry : topologies::names()) {
      entries.emplace_back(entry.name, entry.description);
    }
    std::fputs(list_json("topologies", entries).c_str(), stdout);
    return kExitDone;
  }
  for (const topologies::TopologyEntry& entry : topologies::names()) {
    std::fputs(fmt::format("{:<22}  {}\n", entry.name, entry.description).c_str(), stdout);
  }
  return kExitDone;
}

template <class T>
std::string or_dash(const std::optional<T>& value, const char* format = "{}") {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string analysis_text(const std::string& name, const topologies::Graph& graph,
                          const topologies::Analysis& analysis) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} among {} peers: {} links, {}{}\n", name, analysis.nodes, analysis.edges,
                 analysis.connected ? "connected" : "NOT connected", analysis.bipartite ? ", bipartite" : "");
  fmt::format_to(out, "degree            {} to {}, mean {:.3g}\n", analysis.degree_min, analysis.degree_max,
                 analysis.degree_mean);
  fmt::format_to(out, "diameter          {}\n", or_dash(analysis.diameter));
  fmt::format_to(out, "spectral gap      {}\n", or_dash(analysis.spectral_gap, "{:.6g}"));
  fmt::format_to(out, "consensus factor  {} of the squared disagreement is left by an exchange (bound {})\n",
                 or_dash(analysis.consensus_factor, "{:.6g}"), or_dash(analysis.consensus_bound, "{:.6g}"));
  const std::optional<double> factor =
      analysis.consensus_factor ? analysis.consensus_factor : analysis.consensus_bound;
  if (factor && *factor > 0 && *factor < 1) {
    fmt::format_to(out, "so                {:.3g} exchanges a peer take it down to a hundredth\n",
                   std::log(0.01) / std::log(*factor) / analysis.nodes);
  }
  if (analysis.nodes <= topologies::kMatrixNodesMax)
    fmt::format_to(out, "\n{}", topologies::to_matrix(graph));
  return text;
}

int show(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  const auto resolved = resolve_topology(name);
  if (!resolved) return refuse(arguments, resolved.error().message);
  const auto topology = topologies::Topology::parse(*resolved);
  if (!topology) return refuse(arguments, topology.error().message);
  if (!arguments.has("--peers"))
    return refuse(arguments, "--peers is missing; see `starling topology show --help`");
  const auto peers = parse_number<std::uint32_t>(*arguments.get("--peers"));
  if (!peers || *peers < 1 || *peers > kMostPeers) {
    return refuse(arguments, "--peers: '" + *arguments.get("--peers") + "' is not a whole number from 1 to " +
                                 std::to_string(kMostPeers));
  }
  const std::string format = arguments.get("--format").value_or(arguments.has("--json") ? "json" : "text");
  if (format != "text" && format != "json" && format != "dot" && format != "svg") {
    return refuse(arguments, "--format: '" + format + "' is not one of text, json, dot and svg");
  }
  if (arguments.has("--json") && format != "json") {
    return refuse(arguments, "--json does not go with --format " + format);
  }
  if ((format == "dot" || format == "svg") && *peers > kMostPeersDrawn) {
    return refuse(arguments, "--format: a drawing of more than " + std::to_string(kMostPeersDrawn) +
                                 " peers shows nothing; use text or json");
  }
  if (const Status exists = topology->exists(*peers); !exists) return refuse(arguments, exists.error().message);
  const topologies::Schedule schedule = topology->among(*peers);
  const auto graph = topologies::Graph::of_period(schedule);
  if (!graph) return refuse(arguments, graph.error().message);

  std::string text;
  if (format == "dot") {
    text = topologies::to_dot(*graph, name);
  } else if (format == "svg") {
    text = topologies::to_svg(*graph, name);
  } else {
    const auto analysis = topologies::analyze(schedule);
    if (!analysis) return refuse(arguments, analysis.error().message);
    text = format == "json" ? topology_json(name, *analysis) : analysis_text(name, *graph, *analysis);
  }
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command topology_list_command() {
  return {"topology list", "the families of graphs", {}, {{"--json", "", "print one JSON object"}}, list};
}

Command topology_show_command() {
  return {"topology show",
          "degree, diameter, spectral gap, predicted consensus rate",
          {{"NAME", "a name of `topology list`"}},
          {{"--peers", "N", "how many peers"},
           {"--format", "NAME", "text, json, dot or svg (default text)"},
           {"--json", "", "the same as --format json"}},
          show};
}

}  // namespace starling::cli
