// starling topology compare: topologies side by side, predicted and measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/json.h"
#include "cli/commands/named_files.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "lab/plot/consensus_sheet.h"
#include "topologies/topology.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kComparedPeersMost = 100'000;
constexpr std::uint32_t kMostPeersMeasured = topologies::kFactorNodesMax;  // larger ones have no prediction
constexpr std::uint64_t kMostSeeds = 1'000'000;
constexpr std::array kComparisonFormats = {"text", "json", "svg"};

// Compared if none is named, as far as they exist for the number of peers; from slow to fast.
constexpr std::array kUsual = {"line",
                               "ring",
                               "star",
                               "tree",
                               "torus",
                               "hypercube",
                               "random-regular:k=4",
                               "exponential",
                               "one-peer-exponential",
                               "complete"};

struct ComparisonRequest {
  std::vector<topologies::Topology> topologies;
  std::vector<std::string> names;  // as the user gave them
  std::uint32_t peers = 0;
  std::optional<topologies::Mixing> mixing;
  bool measure = false;
  lab::PairwiseOptions pairwise;
  std::string format;  // of standard output: text, json or svg
  std::optional<std::string> picture;
};

Status read_topologies(const Arguments& arguments, ComparisonRequest& request) {
  for (const std::string& name : arguments.all("NAME")) {
    auto topology = read_topology(name);
    if (!topology) return topology.error();
    if (Status exists = topology->exists(request.peers); !exists) return exists.error();
    tell_graph(topology->name());
    request.names.push_back(name);
    request.topologies.push_back(std::move(*topology));
  }
  if (!request.topologies.empty()) return Done{};
  for (const char* name : kUsual) {
    auto topology = topologies::Topology::parse(name);
    if (!topology || !topology->exists(request.peers)) continue;
    request.names.emplace_back(name);
    request.topologies.push_back(std::move(*topology));
  }
  return Done{};
}

Status read_request(const Arguments& arguments, ComparisonRequest& request) {
  request.measure = arguments.has("--measure");
  const std::uint32_t most = request.measure ? kMostPeersMeasured : kComparedPeersMost;
  const std::uint32_t least = request.measure ? 2 : 1;
  auto& pairwise = request.pairwise;
  for (const Status& read : {read_number<std::uint32_t>(arguments, "--peers", least, most, request.peers),
                             read_number<std::uint64_t>(arguments, "--seeds", 1, kMostSeeds, pairwise.seeds),
                             read_number<std::uint64_t>(arguments, "--seed", 0, UINT64_MAX, pairwise.seed),
                             read_threads(arguments, pairwise.threads)}) {
    if (!read) return read;
  }
  if (const auto text = arguments.get("--mixing")) {
    const auto mixing = topologies::parse_mixing(*text);
    if (!mixing) return Error{"--mixing: " + mixing.error().message};
    request.mixing = *mixing;
  }
  if (const auto text = arguments.get("--partners")) {
    if (*text != "uniform" && *text != "turns")
      return Error{"--partners: '" + *text + "' is unknown; expected uniform or turns"};
    if (*text == "turns") pairwise.partners = Partners::turns;
  }
  const auto format = read_format(arguments, kComparisonFormats);
  if (!format) return format.error();
  request.format = *format;
  request.picture = arguments.get("--out");
  if (request.picture) {
    if (Status accepted = training::check_target(*request.picture); !accepted)
      return Error{"--out: " + accepted.error().message};
  }
  if (!request.measure) {
    for (const char* flag : {"--seeds", "--seed", "--threads", "--partners", "--out"}) {
      if (arguments.has(flag)) return Error{std::string(flag) + " has no effect without --measure"};
    }
    if (request.format == "svg") return Error{"--format svg draws the measurements: add --measure"};
  }
  return read_topologies(arguments, request);
}

// ---- the table ----

// A factor of V; more digits close to 1.
std::string factor_text(const std::optional<double>& factor) {
  return or_dash(factor, factor && *factor > 0.999 ? "{:.6f}" : "{:.4f}");
}

std::string deviation_text(const std::optional<double>& percent) { return or_dash(percent, "{:+.1f} %"); }

std::string table(const std::vector<ComparedRow>& rows, bool measured) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> head = {"topology", "edges", "degree", "diameter", "gap", "factor/round"};
  if (measured) head.insert(head.end(), {"measured", "rate error"});
  head.insert(head.end(), {"rounds/tenth", "exact after", "factor/exchange"});
  if (measured) head.insert(head.end(), {"measured", "rate error"});
  head.emplace_back("exchanges/tenth");
  cells.push_back(head);
  for (const ComparedRow& row : rows) {
    const topologies::Analysis& a = row.compared.analysis;
    std::vector<std::string> line = {row.compared.name,
                                     std::to_string(a.edges),
                                     a.degree_min == a.degree_max
                                         ? std::to_string(a.degree_max)
                                         : fmt::format("{}-{}", a.degree_min, a.degree_max),
                                     or_dash(a.diameter),
                                     or_dash(a.spectral_gap, "{:.4f}"),
                                     factor_text(a.round_factor)};
    if (measured) {
      line.push_back(factor_text(row.compared.lock_step.factor));
      line.push_back(deviation_text(row.round_deviation_percent));
    }
    line.push_back(or_dash(a.rounds_to_tenth, "{:.3g}"));
    line.push_back(or_dash(a.exact_after));
    line.push_back(factor_text(a.consensus_factor));
    if (measured) {
      line.push_back(factor_text(row.compared.pairwise.factor));
      line.push_back(deviation_text(row.consensus_deviation_percent));
    }
    line.push_back(or_dash(a.exchanges_to_tenth, "{:.3g}"));
    cells.push_back(std::move(line));
  }
  return aligned(cells, 1);
}

// ---- measuring ----

Status compare(const ComparisonRequest& request, const lab::Interrupts& interrupts, ProgressLine& progress,
               std::vector<ComparedRow>& rows) {
  for (std::size_t k = 0; k < request.topologies.size(); ++k) {
    const topologies::Topology& topology = request.topologies[k];
    const topologies::Schedule schedule = topology.among(request.peers);
    ComparedRow row;
    const std::string& name = request.names[k];
    row.compared.name = name;
    auto analysis = topologies::analyze(schedule, request.mixing);
    if (!analysis) return Error{name + ": " + analysis.error().message};
    row.compared.analysis = *analysis;
    if (request.measure) {
      const auto show = [&](double done) {
        progress.show(
            fmt::format("{} of {}, {}: {:.0f} %", k + 1, request.topologies.size(), name, 100 * done));
      };
      show(0);
      auto lock_step = lab::measure_lock_step(schedule, request.mixing, request.pairwise.seed);
      if (!lock_step) return Error{name + ": " + lock_step.error().message};
      row.compared.lock_step = std::move(*lock_step);
      lab::PairwiseOptions options = request.pairwise;
      options.interrupted = [&interrupts] { return interrupts.requested(); };
      options.progress = show;
      row.compared.pairwise = lab::measure_pairwise(topology, request.peers, options);
      row.round_deviation_percent =
          lab::deviation_percent(row.compared.lock_step.factor, row.compared.analysis.round_factor);
      row.consensus_deviation_percent =
          lab::deviation_percent(row.compared.pairwise.factor, row.compared.analysis.consensus_factor);
    }
    rows.push_back(std::move(row));
    if (interrupts.requested()) return Done{};
  }
  return Done{};
}

// Two plots of 3.5 inches and the legend, whose names may be long.
Result<std::string> draw_curves(const ComparisonRequest& request, const std::vector<ComparedRow>& rows) {
  constexpr double kPlots = 7, kSamples = 0.6, kCharacter = 0.075;  // inches
  std::vector<lab::Compared> curves;
  for (const ComparedRow& row : rows) curves.push_back(row.compared);
  const lab::FigureSheet sheet = lab::consensus_sheet(curves, request.peers, request.pairwise.seed);
  std::size_t longest = 0;
  for (const lab::FigureLine& line : sheet.figures.front().lines)
    longest = std::max(longest, line.label.size());
  return lab::draw_sheet(sheet, {.width = kPlots + kSamples + kCharacter * static_cast<double>(longest),
                                 .height = 4.6,
                                 .font = 9,
                                 .format = lab::PaperFormat::svg});
}

int compare_topologies(const Arguments& arguments) {
  ComparisonRequest request;
  if (Status read = read_request(arguments, request); !read) return refuse(arguments, read.error());
  const lab::Interrupts interrupts;
  ProgressLine progress;
  std::vector<ComparedRow> rows;
  const Status compared = compare(request, interrupts, progress, rows);
  progress.clear();
  if (!compared) return refuse(arguments, compared.error());
  if (interrupts.requested()) return fail(arguments, "interrupted before the end of the measurement");

  std::string picture;
  if (request.picture || request.format == "svg") {
    auto drawn = draw_curves(request, rows);
    if (!drawn) return fail(arguments, drawn.error());
    picture = std::move(*drawn);
  }
  if (request.picture) {
    if (Status written = training::write_text(*request.picture, picture); !written)
      return refuse(arguments, "--out: " + written.error().message);
  }
  return print_out(request.format == "svg"    ? picture
                   : request.format == "json" ? compare_json(request.peers, request.measure, rows)
                                              : table(rows, request.measure));
}

}  // namespace

Command topology_compare_command() {
  return {
      "topology compare",
      "compare topologies, predicted and measured",
      {{"NAME", "names of `topology list` (default: ten common ones)", false, true}},
      {{.name = "--peers", .placeholder = "N", .help = "number of peers", .required = true},
       {"--measure", "", "also measure consensus in lock-step rounds and in exchanges of virtual peers"},
       {"--mixing", "NAME",
        "weights of lock-step rounds: metropolis, uniform, lazy or push-sum (default: by topology)"},
       {"--partners", "POLICY", "for measured exchanges: uniform (default, as in the prediction) or turns"},
       {"--seeds", "K", "number of measurements (default: 4 to 16)"},
       {"--seed", "S", "seed of the measurement (default 1)"},
       threads_flag("threads that measure"),
       {"--format", "NAME", "text, json or svg (default text)"},
       {"--json", "", "the same as --format json"},
       {"--out", "FILE.svg", "write a plot of the measured curves"}},
      compare_topologies,
      "starling topology compare ring torus exponential --peers 16 --measure --out compare.svg"};
}

}  // namespace starling::cli
