#include "topologies/search.h"

#include <algorithm>
#include <vector>

namespace starling::topologies {
namespace {

constexpr std::uint32_t kUnseen = ~0u;
constexpr double kLinksMax = 5e8, kWordsMax = 2e9;  // followed in all, by search() and by spread()

// Hops from `from` to everyone, into `hops`; `queue` is scratch. Returns how many were reached.
std::size_t search(const Graph& graph, std::uint32_t from, std::vector<std::uint32_t>& hops,
                   std::vector<std::uint32_t>& queue) {
  hops.assign(graph.nodes(), kUnseen);
  queue.assign(1, from);
  hops[from] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const std::uint32_t next : graph.neighbors(queue[head])) {
      if (hops[next] != kUnseen) continue;
      hops[next] = hops[queue[head]] + 1;
      queue.push_back(next);
    }
  }
  return queue.size();
}

// The diameter of a connected graph by rumors that spread a hop a round, 64 origins to a word: quick where
// the diameter is small, which large graphs worth drawing have. nullopt where it is not.
std::optional<std::uint32_t> spread(const Graph& graph) {
  const std::uint32_t n = graph.nodes();
  std::vector<std::uint64_t> known(n), next(n);
  std::uint32_t longest = 0;
  double words = 0;
  for (std::uint32_t origin = 0; origin < n; origin += 64) {
    const std::uint32_t origins = std::min<std::uint32_t>(64, n - origin);
    const std::uint64_t all = origins == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << origins) - 1;
    std::fill(known.begin(), known.end(), 0);
    for (std::uint32_t i = 0; i < origins; ++i) known[origin + i] = std::uint64_t{1} << i;
    std::uint32_t rounds = 0;
    for (bool everywhere = n == 1; !everywhere; ++rounds) {
      words += 2 * static_cast<double>(graph.edge_count());
      if (words > kWordsMax) return std::nullopt;
      everywhere = true;
      for (std::uint32_t i = 0; i < n; ++i) {
        std::uint64_t heard = known[i];
        for (const std::uint32_t j : graph.neighbors(i)) heard |= known[j];
        next[i] = heard;
        everywhere &= heard == all;
      }
      std::swap(known, next);
    }
    longest = std::max(longest, rounds);
  }
  return longest;
}

}  // namespace

bool is_connected(const Graph& graph) {
  std::vector<std::uint32_t> hops, queue;
  return graph.nodes() == 0 || search(graph, 0, hops, queue) == graph.nodes();
}

bool is_bipartite(const Graph& graph) {
  std::vector<std::uint32_t> color(graph.nodes(), kUnseen), queue;
  for (std::uint32_t root = 0; root < graph.nodes(); ++root) {
    if (color[root] != kUnseen) continue;
    color[root] = 0;
    queue.assign(1, root);
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::uint32_t here = queue[head];
      for (const std::uint32_t next : graph.neighbors(here)) {
        if (color[next] == color[here]) return false;
        if (color[next] != kUnseen) continue;
        color[next] = 1 - color[here];
        queue.push_back(next);
      }
    }
  }
  return true;
}

std::optional<std::uint32_t> diameter(const Graph& graph) {
  const double n = graph.nodes(), links = 2 * static_cast<double>(graph.edge_count());
  if (graph.nodes() > 1 && links == n * (n - 1)) return 1;
  if (!is_connected(graph)) return std::nullopt;
  if (n * links > kLinksMax) return spread(graph);
  std::vector<std::uint32_t> hops, queue;
  std::uint32_t longest = 0;
  for (std::uint32_t from = 0; from < graph.nodes(); ++from) {
    search(graph, from, hops, queue);
    longest = std::max(longest, hops[queue.back()]);
  }
  return longest;
}

}  // namespace starling::topologies
