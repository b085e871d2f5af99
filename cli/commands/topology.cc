// starling topology list, starling topology show: who exchanges with whom, and how fast that mixes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/json.h"
#include "cli/commands/model_name.h"
#include "cli/shell/output.h"
#include "cli/commands/topology_name.h"
#include "models/spec.h"
#include "topologies/analysis.h"
#include "topologies/drawing.h"
#include "topologies/layout.h"
#include "topologies/topology.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kMostPeers = 100'000;
// Larger drawings are a black disc.
constexpr std::uint32_t kMostPeersDrawn = 2000;
constexpr std::array<std::string_view, 5> kFormats = {"text", "json", "dot", "svg", "edges"};

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

std::string figure(const std::optional<double>& value, int digits = 6) {
  return value ? fmt::format("{:.{}g}", *value, digits) : "not known";
}

// What is left of something, where that is nearly all of it too.
std::string share(const std::optional<double>& value) {
  return value && *value > 0.9999 && *value < 1 ? fmt::format("1 - {:.3g}", 1 - *value) : figure(value);
}

// A line of the table: what it is, how much, and what that means.
void row(std::string& text, std::string_view what, const std::string& value, std::string_view meaning) {
  text += fmt::format("  {:<20}  {:<12}  {}\n", what, value, meaning);
}

void describe_shape(const topologies::Analysis& a, std::string& text) {
  text += "\nshape\n";
  row(text, a.directed ? "receivers of a peer" : "neighbors of a peer",
      a.degree_min == a.degree_max ? std::to_string(a.degree_min)
                                   : fmt::format("{} to {}", a.degree_min, a.degree_max),
      fmt::format("{:.4g} in the mean", a.degree_mean));
  row(text, "diameter",
      a.diameter    ? std::to_string(*a.diameter)
      : a.connected ? "not known"
                    : "none",
      a.connected ? "hops between the two that are farthest apart" : "not everyone reaches everyone");
  if (a.period > 1) row(text, "period", std::to_string(a.period), "rounds, after which the links repeat");
}

void describe_rounds(const topologies::Analysis& a, std::string& text) {
  text += fmt::format("\nlock-step rounds, {} mixing\n", to_string(a.mixing));
  row(text, "sends", fmt::format("{:.4g}", a.sends_per_round), "models that a peer sends in a round");
  row(text, "mean", a.mean_preserved ? "kept" : "NOT kept",
      a.mean_preserved ? "the peers meet at their mean" : "the peers meet, but not at their mean");
  if (a.period == 1)
    row(text, "spectral gap", figure(a.spectral_gap), "1 - the second-largest modulus of W's eigenvalues");
  row(text, "left by a round", share(a.round_factor), "of V, the sum of squared distances from the mean");
  if (a.exact_after)
    row(text, "exact after", std::to_string(*a.exact_after), "rounds: all peers agree, to rounding");
  else
    row(text, "to a tenth", figure(a.rounds_to_tenth, 4), "rounds until sqrt(V) is a tenth");
}

void describe_gossip(const topologies::Analysis& a, std::string& text) {
  text += "\npairwise exchanges at random times\n";
  row(text, "left by an exchange", share(a.consensus_factor),
      a.nodes > topologies::kFactorNodesMax
          ? fmt::format("of V, in the mean; for up to {} peers", topologies::kFactorNodesMax)
          : "of V, in the mean");
  row(text, "at most", share(a.consensus_bound), "its bound by the edges' Laplacian");
  row(text, "to a tenth", figure(a.exchanges_to_tenth, 4),
      fmt::format("exchanges begun by each peer{}", a.consensus_factor ? "" : ", by the bound"));
}

void describe_traffic(const Traffic& traffic, std::string& text) {
  text += fmt::format("\nwith {}, {} parameters\n", traffic.model, traffic.parameters);
  row(text, "a round", format_bytes(traffic.bytes_per_round), "that a peer sends");
  row(text, "an exchange", format_bytes(static_cast<double>(traffic.bytes_per_exchange)), "each way");
}

std::string analysis_text(const std::string& name, const topologies::Graph& graph,
                          const topologies::Analysis& a, const std::optional<Traffic>& traffic) {
  std::string text =
      fmt::format("{} among {} {}: {} {}{}, {}{}\n", name, a.nodes, a.nodes == 1 ? "peer" : "peers", a.edges,
                  a.directed ? "directed link" : "link", a.edges == 1 ? "" : "s",
                  a.connected ? "connected" : "NOT connected", a.bipartite ? ", bipartite" : "");
  describe_shape(a, text);
  describe_rounds(a, text);
  describe_gossip(a, text);
  if (traffic) describe_traffic(*traffic, text);
  if (a.nodes <= topologies::kTerminalNodesMax)
    text += "\n" + topologies::to_terminal(graph, topologies::layout(graph, name));
  else if (a.nodes <= topologies::kMatrixNodesMax)
    text += "\n" + topologies::to_matrix(graph);
  return text;
}

// The figures beneath a drawing.
std::string caption(const topologies::Analysis& a) {
  std::string text =
      fmt::format("{} peers, {} {}", a.nodes, a.edges, a.directed ? "directed links" : "links");
  if (a.period > 1) text += fmt::format(" over {} rounds", a.period);
  if (a.exact_after && a.period > 1)
    text += ", exact average after them";
  else if (a.spectral_gap)
    text += fmt::format(", spectral gap {:.4g}", *a.spectral_gap);
  else if (a.round_factor)
    text += fmt::format(", a round leaves {:.4g} of the squared disagreement", *a.round_factor);
  return text;
}

// What lock-step rounds and exchanges of that model would send.
Result<std::optional<Traffic>> read_traffic(const Arguments& arguments,
                                            const topologies::Analysis& analysis) {
  const auto given = arguments.get("--model");
  if (!given) {
    if (arguments.has("--data")) return Error{"--data says what --model is for, which is missing"};
    return std::optional<Traffic>();
  }
  const auto model = resolve_model(*given);
  if (!model) return model.error();
  models::Shape shape{1, 28, 28};
  int classes = 10;
  if (const auto name = arguments.get("--data")) {
    const auto data = datasets::load(*name, data_root());
    if (!data) return data.error();
    const auto info = datasets::describe(*data);
    shape = {info.shape.channels, info.shape.height, info.shape.width};
    classes = info.classes;
  }
  const auto plan = models::make_model(*model, shape, classes);
  if (!plan) return plan.error();
  Traffic traffic;
  traffic.model = model->name;
  traffic.parameters = plan->layout.parameter_count();
  traffic.bytes_per_exchange = sizeof(float) * traffic.parameters;
  traffic.bytes_per_round = static_cast<double>(traffic.bytes_per_exchange) * analysis.sends_per_round;
  return std::optional(traffic);
}

// Everything that --format can ask for, once the flags are known to be right.
struct Request {
  std::string name, format;
  topologies::Schedule schedule;
  std::optional<topologies::Mixing> mixing;
};

Result<std::string> document(const Arguments& arguments, const Request& request) {
  const auto graph = topologies::Graph::of_period(request.schedule);
  if (!graph) return graph.error();
  if (request.format == "dot") return topologies::to_dot(*graph, request.name);
  if (request.format == "edges") return topologies::to_edge_list(*graph);
  const auto analysis = topologies::analyze(request.schedule, request.mixing);
  if (!analysis) return analysis.error();
  if (request.format == "svg") {
    const auto panels = topologies::panels(request.schedule);
    if (!panels) return panels.error();
    return topologies::to_svg(*panels, topologies::layout(*graph, request.name), request.name,
                              caption(*analysis));
  }
  const auto traffic = read_traffic(arguments, *analysis);
  if (!traffic) return traffic.error();
  return request.format == "json" ? topology_json(request.name, *analysis, *traffic)
                                  : analysis_text(request.name, *graph, *analysis, *traffic);
}

Result<Request> read_request(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  const auto resolved = resolve_topology(name);
  if (!resolved) return resolved.error();
  const auto topology = topologies::Topology::parse(*resolved);
  if (!topology) return topology.error();
  if (!arguments.has("--peers")) return Error{"--peers is missing; see `starling topology show --help`"};
  const auto peers = parse_number<std::uint32_t>(*arguments.get("--peers"));
  if (!peers || *peers < 1 || *peers > kMostPeers)
    return Error{"--peers: '" + *arguments.get("--peers") + "' is not a whole number from 1 to " +
                 std::to_string(kMostPeers)};
  const std::string format = arguments.get("--format").value_or(arguments.has("--json") ? "json" : "text");
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end())
    return Error{"--format: '" + format + "' is unknown; accepted are " + one_of(kFormats)};
  if (arguments.has("--json") && format != "json") return Error{"--json does not go with --format " + format};
  if ((format == "dot" || format == "svg") && *peers > kMostPeersDrawn)
    return Error{"--format: a drawing of more than " + std::to_string(kMostPeersDrawn) +
                 " peers shows nothing; text, json and edges are right"};
  std::optional<topologies::Mixing> mixing;
  if (const auto text = arguments.get("--mixing")) {
    const auto parsed = topologies::parse_mixing(*text);
    if (!parsed) return Error{"--mixing: " + parsed.error().message};
    mixing = *parsed;
  }
  if (const Status exists = topology->exists(*peers); !exists) return exists.error();
  return Request{name, format, topology->among(*peers), mixing};
}

int show(const Arguments& arguments) {
  const auto request = read_request(arguments);
  if (!request) return refuse(arguments, request.error().message);
  const auto text = document(arguments, *request);
  if (!text) return refuse(arguments, text.error().message);
  const auto path = arguments.get("--out");
  if (!path) {
    std::fputs(text->c_str(), stdout);
    return kExitDone;
  }
  std::ofstream file(*path, std::ios::binary | std::ios::trunc);
  if (!file)
    return refuse(arguments,
                  "--out: '" + *path + "' cannot be written; a file in a folder that exists is right");
  file << *text << std::flush;
  if (!file) return fail(arguments, "'" + *path + "' could not be written to its end; is the disk full?");
  return kExitDone;
}

}  // namespace

Command topology_list_command() {
  return {"topology list", "the families of graphs", {}, {{"--json", "", "print one JSON object"}}, list,
          "starling topology list"};
}

Command topology_show_command() {
  return {
      "topology show",
      "degree, diameter, spectral gap, predicted consensus rate; drawings",
      {{"NAME", "a name of `topology list`"}},
      {{"--peers", "N", "how many peers"},
       {"--format", "NAME", "text, json, dot, svg or edges (default text)"},
       {"--mixing", "NAME",
        "weights of lock-step rounds: metropolis, uniform, lazy or push-sum (default: "
        "the topology's own, or push-sum where it is directed, or metropolis)"},
       {"--model", "NAME-OR-FILE", "also what exchanging this network costs"},
       {"--data", "NAME-OR-PATH", "whose images and classes the model is for (default 1x28x28, 10 classes)"},
       {"--out", "FILE", "write there instead of to standard output"},
       {"--json", "", "the same as --format json"}},
      show,
      "starling topology show torus --peers 16\n"
      "starling topology show ring --peers 8 --format svg --out ring.svg"};
}

}  // namespace starling::cli
