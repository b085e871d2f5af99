#include "topologies/mixing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"

namespace starling::topologies {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"metropolis", "uniform", "lazy", "push-sum", "given"};

struct Entry {
  std::uint32_t row, column;
  double weight;
};

// Rows sorted by column; of each node what its links do not take stays with it.
MixingMatrix from_entries(std::uint32_t n, std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.row, a.column) < std::pair(b.row, b.column);
  });
  MixingMatrix w;
  w.begin.assign(std::size_t{n} + 1, 0);
  for (const Entry& entry : entries) {
    ++w.begin[entry.row + 1];
    w.from.push_back(entry.column);
    w.weight.push_back(entry.weight);
  }
  for (std::size_t i = 0; i < n; ++i) w.begin[i + 1] += w.begin[i];
  return w;
}

double strength(const Graph& graph, std::uint32_t node) {
  if (graph.weights(node).empty()) return graph.degree(node);
  double sum = 0;
  for (const double weight : graph.weights(node)) sum += weight;
  return sum;
}

}  // namespace

std::string_view to_string(Mixing mixing) {
  return kNames[static_cast<std::size_t>(mixing)];
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
                 "' asks for an undirected topology; push-sum and uniform serve directed ones"};
  if (mixing == Mixing::given && graph.weights_kind() != Weights::mixing)
    return Error{"this topology brings no mixing matrix of its own; metropolis, uniform, lazy and push-sum are right"};
  std::vector<double> strengths(n);
  for (std::uint32_t i = 0; i < n; ++i) strengths[i] = strength(graph, i);
  const bool relative = graph.weights_kind() == Weights::relative;

  std::vector<Entry> entries;
  entries.reserve(graph.link_count() + n);
  for (std::uint32_t i = 0; i < n; ++i) {
    double kept = 1;
    const auto neighbors = graph.neighbors(i);
    for (std::size_t k = 0; k < neighbors.size(); ++k) {
      const std::uint32_t j = neighbors[k];
      const double a = relative || mixing == Mixing::given ? graph.weights(i)[k] : 1;
      double weight = 0;  // of the link from i to j
      switch (mixing) {
        case Mixing::metropolis:
        case Mixing::lazy: {
          const double most = relative ? std::max(strengths[i], strengths[j])
                                       : std::max(graph.degree(i), graph.degree(j));
          weight = a / (1 + most) / (mixing == Mixing::lazy ? 2 : 1);
          break;
        }
        case Mixing::uniform:
          weight = a / (1 + (relative ? strengths[i] : graph.degree(i)));
          break;
        case Mixing::push_sum:
          weight = a / (1 + (relative ? strengths[i] : graph.degree(i)));
          break;
        case Mixing::given:
          weight = a;
          break;
      }
      kept -= weight;
      // What i sends is taken by j. Only the means of one's own neighborhood are rows: i takes from those it links to.
      if (mixing == Mixing::uniform)
        entries.push_back({i, j, weight});
      else
        entries.push_back({j, i, weight});
    }
    entries.push_back({i, i, kept});
  }
  return from_entries(n, std::move(entries));
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
    if (std::abs(row - 1) > 1e-12) return false;
  }
  return std::all_of(columns.begin(), columns.end(), [](double c) { return std::abs(c - 1) <= 1e-12; });
}

}  // namespace starling::topologies
