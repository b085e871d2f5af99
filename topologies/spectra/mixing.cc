#include "topologies/spectra/mixing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/text.h"

namespace starling::topologies {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"metropolis", "uniform", "lazy", "push-sum", "given"};

// The strength of each node: the sum of the relative weights of its links, or their number.
std::vector<double> strengths(const Graph& graph) {
  std::vector<double> sums(graph.nodes());
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    sums[i] = graph.degree(i);
    if (graph.weights_kind() != Weights::relative) continue;
    sums[i] = 0;
    for (const double weight : graph.weights(i)) sums[i] += weight;
  }
  return sums;
}

// MixingMatrix::begin: a row has its diagonal and an entry per link that ends (`by_sender`: begins) there.
std::vector<std::size_t> row_begins(const Graph& graph, bool by_sender) {
  std::vector<std::size_t> begin(std::size_t{graph.nodes()} + 1);
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    begin[i + 1] += 1 + (by_sender ? graph.degree(i) : 0);
    if (by_sender) continue;
    for (const std::uint32_t j : graph.neighbors(i)) ++begin[j + 1];
  }
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) begin[i + 1] += begin[i];
  return begin;
}

// The entry for a link of weight `a`; `strength` is the larger one of its two ends.
double metropolis(double a, double strength) { return a / (1 + strength); }

}  // namespace

std::string_view to_string(Mixing mixing) { return kNames[static_cast<std::size_t>(mixing)]; }

Links lock_step_links(const Schedule& schedule, std::uint32_t peer, std::uint64_t round) {
  STARLING_CHECK(!schedule.directed());
  Links links = schedule.links(peer, round % schedule.period());
  if (schedule.weights() == Weights::mixing) return links;
  const auto strength = [](const Links& of) {
    double sum = 0;
    for (const Link& link : of) sum += link.weight;
    return sum;
  };
  const double own = strength(links);
  for (Link& link : links) {
    const double larger = std::max(own, strength(schedule.links(link.peer, round % schedule.period())));
    link.weight = metropolis(link.weight, larger);
  }
  return links;
}

Result<Mixing> parse_mixing(std::string_view text) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Mixing::given); ++i)
    if (kNames[i] == text) return static_cast<Mixing>(i);
  return Error{"mixing '" + std::string(text) + "' is unknown; accepted are " +
               one_of(std::span(kNames).first<static_cast<std::size_t>(Mixing::given)>())};
}

Mixing default_mixing(const Schedule& schedule) {
  if (schedule.weights() == Weights::mixing) return Mixing::given;
  return schedule.directed() ? Mixing::push_sum : Mixing::metropolis;
}

Result<MixingMatrix> mixing_matrix(const Graph& graph, Mixing mixing) {
  const std::uint32_t n = graph.nodes();
  const bool symmetric = mixing == Mixing::metropolis || mixing == Mixing::lazy;
  if (symmetric && graph.directed())
    return Error{"mixing '" + std::string(to_string(mixing)) +
                 "' requires an undirected topology; expected push-sum or uniform"};
  if (mixing == Mixing::given && graph.weights_kind() != Weights::mixing)
    return Error{
        "this topology has no mixing matrix of its own; expected metropolis, uniform, lazy or push-sum"};
  const std::vector<double> strength = strengths(graph);
  const auto link_weight = [&](std::uint32_t i, std::size_t k) {
    const double a = graph.weights_kind() == Weights::equal ? 1 : graph.weights(i)[k];
    if (mixing == Mixing::given) return a;
    const double count = graph.weights_kind() == Weights::relative ? a : 1;
    if (!symmetric) return count / (1 + strength[i]);
    const double share = metropolis(count, std::max(strength[i], strength[graph.neighbors(i)[k]]));
    return mixing == Mixing::lazy ? share / 2 : share;
  };

  // A link from i to j is an entry in the row of its receiver j, except with Mixing::uniform, where i
  // averages its own neighborhood.
  const bool by_sender = mixing == Mixing::uniform;
  MixingMatrix w;
  w.begin = row_begins(graph, by_sender);
  w.from.resize(w.begin[n]);
  w.weight.resize(w.begin[n]);
  std::vector<std::size_t> next(w.begin.begin(), w.begin.end() - 1);
  const auto place = [&](std::uint32_t row, std::uint32_t from, double weight) {
    w.from[next[row]] = from;
    w.weight[next[row]++] = weight;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto neighbors = graph.neighbors(i);
    double kept = 1;
    for (std::size_t k = 0; k < neighbors.size(); ++k) kept -= link_weight(i, k);
    std::size_t k = 0;
    const auto place_links_below = [&](std::uint32_t bound) {
      for (; k < neighbors.size() && neighbors[k] < bound; ++k)
        by_sender ? place(i, neighbors[k], link_weight(i, k)) : place(neighbors[k], i, link_weight(i, k));
    };
    place_links_below(i);
    place(i, i, kept);
    place_links_below(n);
  }
  return w;
}

void multiply(const MixingMatrix& w, std::span<const double> x, std::span<double> out) {
  for (std::uint32_t i = 0; i < w.nodes(); ++i) {
    double sum = 0;
    for (std::size_t k = w.begin[i]; k < w.begin[i + 1]; ++k) sum += w.weight[k] * x[w.from[k]];
    out[i] = sum;
  }
}

std::vector<double> dense(const MixingMatrix& w) {
  const std::size_t n = w.nodes();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = w.begin[i]; k < w.begin[i + 1]; ++k) matrix[i * n + w.from[k]] = w.weight[k];
  return matrix;
}

bool is_doubly_stochastic(const MixingMatrix& w) {
  std::vector<double> columns(w.nodes());
  for (std::uint32_t i = 0; i < w.nodes(); ++i) {
    double row = 0;
    for (std::size_t k = w.begin[i]; k < w.begin[i + 1]; ++k) {
      row += w.weight[k];
      columns[w.from[k]] += w.weight[k];
    }
    if (std::abs(row - 1) > 1e-9) return false;
  }
  return std::all_of(columns.begin(), columns.end(), [](double c) { return std::abs(c - 1) <= 1e-9; });
}

}  // namespace starling::topologies
