// starling topology list, show: the graphs of possible partners, and how fast they mix.
#include <fmt/format.h>

#include <unistd.h>

#include <array>

#include "base/program.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/json.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/output.h"
#include "models/spec.h"
#include "topologies/drawings/drawing.h"
#include "topologies/drawings/layout.h"
#include "topologies/spectra/analysis.h"
#include "topologies/topology.h"
#include "training/learning/recipe.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kMostPeers = 100'000;
constexpr std::uint32_t kMostPeersDrawn = 2000;  // larger drawings are a black disc
constexpr std::array<std::string_view, 5> kFormats = {"text", "json", "dot", "svg", "edges"};

int list_topologies(const Arguments& arguments) {
  std::vector<Described> entries;
  for (const topologies::TopologyEntry& entry : topologies::names())
    entries.push_back({entry.name, entry.description});
  return print_list(arguments, "topologies", entries);
}

std::string figure(const std::optional<double>& value, int digits = 6) {
  return value ? fmt::format("{:.{}g}", *value, digits) : "unknown";
}

// A factor; close to 1 as its distance to 1.
std::string share(const std::optional<double>& value) {
  return value && *value > 0.9999 && *value < 1 ? fmt::format("1 - {:.3g}", 1 - *value) : figure(value);
}

void row(std::string& text, std::string_view what, const std::string& value, std::string_view meaning) {
  text += fmt::format("  {:<20}  {:<12}  {}\n", what, value, meaning);
}

void describe_shape(const topologies::Analysis& a, std::string& text) {
  text += "\nshape\n";
  row(text, a.directed ? "receivers of a peer" : "neighbors of a peer",
      a.degree_min == a.degree_max ? std::to_string(a.degree_min)
                                   : fmt::format("{} to {}", a.degree_min, a.degree_max),
      fmt::format("mean {:.4g}", a.degree_mean));
  row(text, "diameter",
      a.diameter    ? std::to_string(*a.diameter)
      : a.connected ? "unknown"
                    : "none",
      a.connected ? "hops between the two most distant peers" : "some peers cannot reach each other");
  if (a.period > 1) row(text, "period", std::to_string(a.period), "rounds after which the links repeat");
}

void describe_rounds(const topologies::Analysis& a, std::string& text) {
  text += fmt::format("\nlock-step rounds, {} mixing\n", to_string(a.mixing));
  row(text, "sends", fmt::format("{:.4g}", a.sends_per_round), "models that a peer sends per round");
  row(text, "mean", a.mean_preserved ? "kept" : "NOT kept",
      a.mean_preserved ? "the peers converge to their mean" : "the peers converge, but not to their mean");
  if (a.period == 1)
    row(text, "spectral gap", figure(a.spectral_gap), "1 - the second-largest modulus of W's eigenvalues");
  row(text, "factor per round", share(a.round_factor), "of V, the sum of squared distances from the mean");
  if (a.exact_after)
    row(text, "exact after", std::to_string(*a.exact_after), "rounds: all peers agree, to rounding");
  else
    row(text, "to a tenth", figure(a.rounds_to_tenth, 4), "rounds until sqrt(V) is a tenth");
}

void describe_gossip(const topologies::Analysis& a, std::string& text) {
  text += "\npairwise exchanges at random times\n";
  row(text, "factor per exchange", share(a.consensus_factor),
      a.nodes > topologies::kFactorNodesMax
          ? fmt::format("of V, mean; for up to {} peers", topologies::kFactorNodesMax)
          : "of V, mean");
  row(text, "at most", share(a.consensus_bound), "bound from the Laplacian of the edges");
  row(text, "to a tenth", figure(a.exchanges_to_tenth, 4),
      fmt::format("exchanges that each peer initiates{}", a.consensus_factor ? "" : ", by the bound"));
}

void describe_traffic(const ModelTraffic& traffic, std::string& text) {
  text += fmt::format("\nwith {}, {} parameters\n", traffic.model, traffic.parameters);
  row(text, "per round", format_bytes(traffic.bytes_per_round), "that a peer sends");
  row(text, "per exchange", format_bytes(traffic.bytes_per_exchange), "each way");
}

std::string analysis_text(const std::string& name, const topologies::Graph& graph,
                          const topologies::Analysis& a, const std::optional<ModelTraffic>& traffic,
                          std::size_t columns) {
  std::string text =
      fmt::format("{} among {} {}: {} {}{}, {}{}\n", name, a.nodes, a.nodes == 1 ? "peer" : "peers", a.edges,
                  a.directed ? "directed link" : "link", a.edges == 1 ? "" : "s",
                  a.connected ? "connected" : "NOT connected", a.bipartite ? ", bipartite" : "");
  describe_shape(a, text);
  describe_rounds(a, text);
  describe_gossip(a, text);
  if (traffic) describe_traffic(*traffic, text);
  std::string drawing;
  if (a.nodes <= topologies::kTerminalNodesMax)
    drawing = topologies::to_terminal(graph, topologies::layout(graph, name), !shows_utf8());
  else if (a.nodes <= topologies::kMatrixNodesMax)
    drawing = topologies::to_matrix(graph);
  // Lines that wrap are no drawing.
  if (drawing.empty() || cut_to_columns(drawing, columns) != drawing) return text;
  return text + "\n" + drawing;
}

// The figures below a drawing.
std::string caption(const topologies::Analysis& a) {
  std::string text =
      fmt::format("{} peers, {} {}", a.nodes, a.edges, a.directed ? "directed links" : "links");
  if (a.period > 1) text += fmt::format(" over {} rounds", a.period);
  if (a.exact_after && a.period > 1)
    text += ", then the exact average";
  else if (a.spectral_gap)
    text += fmt::format(", spectral gap {:.4g}", *a.spectral_gap);
  else if (a.round_factor)
    text += fmt::format(", factor {:.4g} per round", *a.round_factor);
  return text;
}

// For the data set, or for images of 28x28 in 10 classes, or for text of 65 different characters.
Result<models::Plan> plan_of(const models::ModelText& model, const std::optional<std::string>& data_name) {
  if (!data_name) {
    const int context = models::context_of(model);
    return context > 0 ? models::make_model(model, {1, 1, 1, context}, 65)
                       : models::make_model(model, {1, 28, 28}, 10);
  }
  auto data = datasets::load(*data_name, data_root());
  if (!data) return data.error();
  return training::make_plan(model, *data);
}

// The traffic of --model; nothing if it is not given.
Result<std::optional<ModelTraffic>> read_traffic(const Arguments& arguments,
                                                 const topologies::Analysis& analysis) {
  const auto given = arguments.get("--model");
  if (!given) {
    if (arguments.has("--data")) return Error{"--data has no effect without --model"};
    return std::optional<ModelTraffic>();
  }
  const auto model = resolve_model(*given);
  if (!model) return model.error();
  const auto plan = plan_of(*model, arguments.get("--data"));
  if (!plan) return plan.error();
  ModelTraffic traffic;
  traffic.model = model->name;
  traffic.parameters = plan->layout.parameter_count();
  traffic.bytes_per_exchange = sizeof(float) * traffic.parameters;
  traffic.bytes_per_round = static_cast<double>(traffic.bytes_per_exchange) * analysis.sends_per_round;
  return std::optional(traffic);
}

struct Request {
  std::string name, format;
  topologies::Schedule schedule;
  std::optional<topologies::Mixing> mixing;
};

Result<std::string> document(const Arguments& arguments, const Request& request) {
  const auto graph = topologies::Graph::of_period(request.schedule);
  if (!graph) return graph.error();
  if (request.format == "dot") return topologies::to_dot(*graph, request.name);
  if (request.format == "edges") {
    if (request.schedule.period() > 1)
      warn(fmt::format("{} varies in time: the list has the links of all {} rounds, and no rounds",
                       request.name, request.schedule.period()));
    return topologies::to_edge_list(*graph);
  }
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
  return request.format == "json"
             ? topology_json(request.name, *analysis, *traffic)
             : analysis_text(request.name, *graph, *analysis, *traffic,
                             arguments.has("--out") ? 0 : terminal_columns(STDOUT_FILENO));
}

Result<Request> read_request(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  const auto topology = read_topology(name);
  if (!topology) return topology.error();
  std::uint32_t peers = topology->only_peers().value_or(0);
  if (peers == 0 && !arguments.has("--peers"))
    return Error{"--peers is missing; expected the number of peers"};
  if (Status read = read_number(arguments, "--peers", 1U, kMostPeers, peers); !read) return read.error();
  const auto format = read_format(arguments, kFormats);
  if (!format) return format.error();
  if ((*format == "dot" || *format == "svg") && peers > kMostPeersDrawn) {
    return Error{"--format: a drawing of more than " + std::to_string(kMostPeersDrawn) +
                 " peers is not readable; choose text, json or edges"};
  }
  std::optional<topologies::Mixing> mixing;
  if (const auto text = arguments.get("--mixing")) {
    const auto parsed = topologies::parse_mixing(*text);
    if (!parsed) return Error{"--mixing: " + parsed.error().message};
    mixing = *parsed;
  }
  if (const Status exists = topology->exists(peers); !exists) return exists.error();
  tell_graph(topology->name());
  return Request{name, *format, topology->among(peers), mixing};
}

int show_topology(const Arguments& arguments) {
  const auto request = read_request(arguments);
  if (!request) return refuse(arguments, request.error());
  const auto text = document(arguments, *request);
  if (!text) return refuse(arguments, text.error());
  const auto path = arguments.get("--out");
  if (!path) return print_out(*text);
  if (Status written = training::write_text(*path, *text); !written)
    return refuse(arguments, "--out: " + written.error().message);
  return kExitDone;
}

}  // namespace

std::vector<Command> topology_commands() {
  return {
      list_command("topology", "list the families of graphs", list_topologies),
      {"topology show",
       "print degree, diameter, spectral gap and consensus rate, or a drawing",
       {{"NAME", "a name of `topology list`"}},
       {{"--peers", "N", "number of peers; a graph from a file has its own"},
        {"--format", "NAME", "text, json, dot, svg or edges (default text)"},
        {"--mixing", "NAME",
         "weights of lock-step rounds: metropolis, uniform, lazy or push-sum (default: the topology's own, "
         "or push-sum if it is directed, else metropolis)"},
        {"--model", "NAME-OR-FILE", "also print the cost of exchanging this network"},
        {"--data", "NAME-OR-PATH", "data set that sets the model's input and classes (default 1x28x28, 10)"},
        {"--out", "FILE", "write to this file instead of standard output"},
        {"--json", "", "the same as --format json"}},
       show_topology,
       "starling topology show torus --peers 16\n"
       "starling topology show ring --peers 8 --format svg --out ring.svg"}};
}

}  // namespace starling::cli
