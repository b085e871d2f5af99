#include "topologies/spectra/analysis.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "topologies/search.h"
#include "topologies/spectra/spectrum.h"

namespace starling::topologies {
namespace {

constexpr std::size_t kEntriesMax = std::size_t{1} << 27;  // of all matrices of a period
constexpr double kZeroModulus = 1e-9;  // as in spectrum.cc: a modulus that is 0 up to rounding

Mixing default_mixing(const Graph& graph) {
  if (graph.weights_kind() == Weights::mixing) return Mixing::given;
  return graph.directed() ? Mixing::push_sum : Mixing::metropolis;
}

void describe_shape(const Graph& graph, Analysis& a) {
  a.nodes = graph.nodes();
  a.edges = graph.edge_count();
  a.directed = graph.directed();
  if (a.nodes == 0) return;
  a.degree_min = a.degree_max = graph.degree(0);
  for (std::uint32_t i = 0; i < a.nodes; ++i) {
    a.degree_min = std::min(a.degree_min, graph.degree(i));
    a.degree_max = std::max(a.degree_max, graph.degree(i));
  }
  a.degree_mean = static_cast<double>(graph.link_count()) / a.nodes;
  a.connected = is_connected(graph);
  a.bipartite = is_bipartite(graph);
  a.diameter = diameter(graph);
}

// The distance of the second-largest modulus from 1. Unlike the modulus, it is accurate if mixing is slow.
std::optional<double> gap(const MixingMatrix& w, Mixing mixing) {
  if (w.nodes() <= 1) return 1;
  const bool symmetric = mixing == Mixing::metropolis || mixing == Mixing::lazy || is_symmetric(w);
  if (!symmetric) {
    const auto modulus = period_modulus(std::span(&w, 1));
    if (!modulus) return std::nullopt;
    return std::clamp(1 - *modulus, 0.0, 1.0);
  }
  const auto distances = symmetric_distances(w);
  if (!distances) return std::nullopt;
  return std::clamp(std::min(distances->least, 2 - distances->greatest), 0.0, 1.0);
}

// A gap in 12 digits: the others are rounding of the eigenvalues, such as 0.9999999999999994 for 1.
std::optional<double> rounded(std::optional<double> gap) {
  if (gap && *gap > 0) {
    const double unit = std::pow(10, 11 - std::floor(std::log10(*gap)));
    gap = std::round(*gap * unit) / unit;
  }
  return gap;
}

void describe_rounds(std::span<const MixingMatrix> rounds, Analysis& a) {
  a.mean_preserved =
      a.mixing == Mixing::push_sum || std::all_of(rounds.begin(), rounds.end(), is_doubly_stochastic);
  double entries = 0;
  for (const MixingMatrix& w : rounds) entries += static_cast<double>(w.from.size() - w.nodes());
  a.period = rounds.size();
  if (a.nodes == 0) return;
  a.sends_per_round = entries / a.nodes / static_cast<double>(a.period);

  std::optional<double> logarithm;  // of the modulus, per round
  if (a.period == 1) {
    a.spectral_gap = gap(rounds.front(), a.mixing);
    if (a.spectral_gap) logarithm = std::log1p(-*a.spectral_gap);
    a.spectral_gap = rounded(a.spectral_gap);
  } else if (const auto modulus = period_modulus(rounds)) {
    logarithm = std::log(std::min(1.0, *modulus)) / static_cast<double>(a.period);
  }
  if (!logarithm) return;
  if (*logarithm * static_cast<double>(a.period) < std::log(kZeroModulus)) {
    a.round_factor = 0;
    a.exact_after = a.nodes == 1 ? 0 : a.period;
    a.rounds_to_tenth = static_cast<double>(*a.exact_after);
  } else {
    a.round_factor = std::exp(2 * *logarithm);
    if (*logarithm < 0) a.rounds_to_tenth = -std::numbers::ln10 / *logarithm;
  }
}

void describe_gossip(std::span<const EdgeClock> clocks, Analysis& a) {
  if (a.nodes == 0) return;
  a.consensus_factor = consensus_factor(a.nodes, clocks);
  a.consensus_bound = consensus_bound(a.nodes, clocks);
  const auto factor = a.consensus_factor ? a.consensus_factor : a.consensus_bound;
  if (factor && *factor < 1) a.exchanges_to_tenth = -2 * std::numbers::ln10 / std::log(*factor) / a.nodes;
}

// The schedule's matrices, of each round of its period.
Result<std::vector<MixingMatrix>> mixing_rounds(const Schedule& schedule, Mixing mixing) {
  std::vector<MixingMatrix> rounds;
  std::size_t entries = 0;
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    const auto graph = Graph::of(schedule, round);
    if (!graph) return graph.error();
    auto w = mixing_matrix(*graph, mixing);
    if (!w) return w.error();
    entries += w->from.size();
    if (entries > kEntriesMax)
      return Error{"a schedule of " + std::to_string(schedule.period()) + " rounds among " +
                   std::to_string(schedule.peers()) + " peers is too large to analyze; expected at most " +
                   std::to_string(kEntriesMax) + " links over all rounds"};
    rounds.push_back(std::move(*w));
  }
  return rounds;
}

}  // namespace

Analysis analyze(const Graph& graph) {
  Analysis a;
  describe_shape(graph, a);
  a.mixing = default_mixing(graph);
  const auto w = mixing_matrix(graph, a.mixing);  // a graph always has its default one
  describe_rounds(std::span(&*w, 1), a);
  describe_gossip(edge_clocks(graph), a);
  return a;
}

Result<Analysis> analyze(const Schedule& schedule, std::optional<Mixing> mixing) {
  Analysis a;
  a.mixing = mixing.value_or(default_mixing(schedule));
  {
    const auto graph = Graph::of_period(schedule);
    if (!graph) return graph.error();
    describe_shape(*graph, a);
  }
  {
    const auto rounds = mixing_rounds(schedule, a.mixing);
    if (!rounds) return rounds.error();
    describe_rounds(*rounds, a);
  }  // each of these is freed before the next is made: they are as large as the graph
  const auto clocks = edge_clocks(schedule);
  if (!clocks) return clocks.error();
  describe_gossip(*clocks, a);
  return a;
}

std::optional<double> round_factor(const Schedule& schedule) {
  Analysis a;
  a.nodes = schedule.peers();
  a.mixing = default_mixing(schedule);
  const auto rounds = mixing_rounds(schedule, a.mixing);
  if (rounds) describe_rounds(*rounds, a);
  return a.round_factor;
}

std::optional<double> spectral_gap(const Graph& graph) {
  const Mixing mixing = default_mixing(graph);
  return rounded(gap(*mixing_matrix(graph, mixing), mixing));
}

std::optional<double> spectral_gap(const Schedule& schedule) {
  if (schedule.period() != 1) return std::nullopt;
  const auto graph = Graph::of(schedule);
  return graph ? spectral_gap(*graph) : std::nullopt;
}

}  // namespace starling::topologies
