// starling topology compare: topologies side by side, predicted and measured.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/shell/log.h"
#include "cli/commands/json.h"
#include "cli/commands/numbers.h"
#include "cli/commands/topology_name.h"
#include "lab/measure/consensus_chart.h"
#include "lab/interrupts.h"
#include "topologies/topology.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kMostPeers = 100'000;
constexpr std::uint32_t kMostPeersMeasured = topologies::kFactorNodesMax;  // beyond, nothing is predicted
constexpr std::uint64_t kMostSeeds = 1'000'000;

// What is compared where nothing is named, of these whatever exists for so many peers: slow to fast.
constexpr std::array<const char*, 10> kUsual = {"line",
                                                "ring",
                                                "star",
                                                "tree",
                                                "torus",
                                                "hypercube",
                                                "random-regular:k=4",
                                                "exponential",
                                                "one-peer-exponential",
                                                "complete"};

struct Request {
  std::vector<topologies::Topology> topologies;
  std::vector<std::string> names;  // as they were given
  std::uint32_t peers = 0;
  std::optional<topologies::Mixing> mixing;
  bool measure = false;
  lab::PairwiseOptions pairwise;
  std::string format;  // of standard output: text, json or svg
  std::optional<std::string> picture;
};

Status read_topologies(const Arguments& arguments, Request& request) {
  for (const std::string& name : arguments.all("NAME")) {
    const auto resolved = resolve_topology(name);
    if (!resolved) return resolved.error();
    auto topology = topologies::Topology::parse(*resolved);
    if (!topology) return topology.error();
    if (Status exists = topology->exists(request.peers); !exists) return exists.error();
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

Status read_request(const Arguments& arguments, Request& request) {
  if (!arguments.has("--peers")) return Error{"--peers is missing; see `starling topology compare --help`"};
  request.measure = arguments.has("--measure");
  const std::uint32_t most = request.measure ? kMostPeersMeasured : kMostPeers;
  const std::uint32_t least = request.measure ? 2 : 1;
  auto& pairwise = request.pairwise;
  for (const Status& read :
       {read_number<std::uint32_t>(arguments, "--peers", least, most, request.peers),
        read_number<std::uint64_t>(arguments, "--seeds", 1, kMostSeeds, pairwise.seeds),
        read_number<std::uint64_t>(arguments, "--seed", 0, UINT64_MAX, pairwise.seed),
        read_number<unsigned>(arguments, "--threads", 1, kMostThreads, pairwise.threads)}) {
    if (!read) return read;
  }
  if (const auto text = arguments.get("--mixing")) {
    const auto mixing = topologies::parse_mixing(*text);
    if (!mixing) return Error{"--mixing: " + mixing.error().message};
    request.mixing = *mixing;
  }
  if (const auto text = arguments.get("--partners")) {
    if (*text != "uniform" && *text != "turns")
      return Error{"--partners: '" + *text + "' is not one of uniform and turns"};
    if (*text == "turns") pairwise.partners = Partners::turns;
  }
  request.format = arguments.get("--format").value_or(arguments.has("--json") ? "json" : "text");
  if (request.format != "text" && request.format != "json" && request.format != "svg")
    return Error{"--format: '" + request.format + "' is not one of text, json and svg"};
  if (arguments.has("--json") && request.format != "json")
    return Error{"--json does not go with --format " + request.format};
  request.picture = arguments.get("--out");
  if (!request.measure) {
    for (const char* flag : {"--seeds", "--seed", "--threads", "--partners", "--out"}) {
      if (arguments.has(flag)) return Error{std::string(flag) + " goes with --measure"};
    }
    if (request.format == "svg") return Error{"--format svg draws what is measured: it goes with --measure"};
  }
  return read_topologies(arguments, request);
}

// ---- the table ----

template <class T>
std::string or_dash(const std::optional<T>& value, const char* format = "{}") {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// A share of V that is left; what is nearly all needs its distance to 1 seen.
std::string factor_text(const std::optional<double>& factor) {
  return or_dash(factor, factor && *factor > 0.999 ? "{:.6f}" : "{:.4f}");
}

std::string deviation_text(const std::optional<double>& percent) {
  return or_dash(percent, "{:+.1f} %");
}

std::string table(const std::vector<ComparedRow>& rows, bool measured) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> head = {"topology", "edges", "degree", "diameter", "gap", "factor/round"};
  if (measured) head.insert(head.end(), {"measured", "rate off"});
  head.insert(head.end(), {"rounds/tenth", "exact after", "factor/exchange"});
  if (measured) head.insert(head.end(), {"measured", "rate off"});
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
  std::vector<std::size_t> width(head.size());
  for (const auto& line : cells)
    for (std::size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  std::string text;
  for (const auto& line : cells) {
    text += fmt::format("{:<{}}", line[0], width[0]);
    for (std::size_t c = 1; c < line.size(); ++c) text += fmt::format("  {:>{}}", line[c], width[c]);
    text += '\n';
  }
  return text;
}

// ---- measuring ----

// Redraws a line on a terminal's standard error.
class Progress {
 public:
  void show(const std::string& name, std::size_t at, std::size_t of, double done) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\033[K%zu of %zu, %s: %.0f %%", at + 1, of, name.c_str(), 100 * done);
    shown_ = true;
  }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  bool terminal_ = may_redraw();
  bool shown_ = false;
};

Status compare(const Request& request, const lab::Interrupts& interrupts, Progress& progress,
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
      progress.show(name, k, request.topologies.size(), 0);
      auto lock_step = lab::measure_lock_step(schedule, request.mixing, request.pairwise.seed);
      if (!lock_step) return Error{name + ": " + lock_step.error().message};
      row.compared.lock_step = std::move(*lock_step);
      lab::PairwiseOptions options = request.pairwise;
      options.interrupted = [&interrupts] { return interrupts.requested(); };
      options.progress = [&](double done) { progress.show(name, k, request.topologies.size(), done); };
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

int run(const Arguments& arguments) {
  Request request;
  if (Status read = read_request(arguments, request); !read) return refuse(arguments, read.error().message);
  const lab::Interrupts interrupts;
  Progress progress;
  std::vector<ComparedRow> rows;
  const Status compared = compare(request, interrupts, progress, rows);
  progress.clear();
  if (!compared) return refuse(arguments, compared.error().message);
  if (interrupts.requested()) return fail(arguments, "interrupted before everything was measured");

  std::string picture;
  if (request.picture || request.format == "svg") {
    std::vector<lab::Compared> curves;
    for (const ComparedRow& row : rows) curves.push_back(row.compared);
    picture = lab::to_svg(lab::consensus_chart(curves, request.peers, request.pairwise.seed));
  }
  if (request.picture) {
    std::ofstream file(*request.picture, std::ios::trunc);
    file << picture;
    file.flush();
    if (!file) return refuse(arguments, "--out: cannot write " + *request.picture);
  }
  const std::string text = request.format == "svg"    ? picture
                           : request.format == "json" ? compare_json(request.peers, request.measure, rows)
                                                      : table(rows, request.measure);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command topology_compare_command() {
  Command command{"topology compare", "topologies side by side, predicted and measured"};
  command.positionals = {{"NAME", "names of `topology list`; without one, ten usual ones", false, true}};
  command.flags = {
      {"--peers", "N", "how many peers"},
      {"--measure", "", "measure consensus too: lock-step rounds, and exchanges in a virtual world"},
      {"--mixing", "NAME",
       "of lock-step rounds: metropolis, uniform, lazy or push-sum (default: by topology)"},
      {"--partners", "POLICY",
       "of measured exchanges: uniform, which is what is predicted, or turns (default uniform)"},
      {"--seeds", "K", "how many worlds to measure in (default: 4 to 16)"},
      {"--seed", "S", "of the measurement (default 1)"},
      {"--threads", "N", "for measuring (default: all cores); never changes a result"},
      {"--format", "NAME", "text, json or svg (default text)"},
      {"--json", "", "the same as --format json"},
      {"--out", "FILE.svg", "write the picture of the measured curves"},
  };
  command.run = run;
  command.example = "starling topology compare ring torus exponential --peers 16 --measure --out compare.svg";
  return command;
}

}  // namespace starling::cli
