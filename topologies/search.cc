#include "topologies/search.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace starling::topologies {
namespace {

constexpr double kSearchLinksMax = 5e8, kWordsMax = 2e9;  // followed by all calls of search() and by spread()

// Sets hops[i] to the hops from `from` to i. `queue` is scratch. Returns the number of reached nodes.
std::size_t search(const Graph& graph, std::uint32_t from, std::vector<std::uint32_t>& hops,
                   std::vector<std::uint32_t>& queue) {
  hops.assign(graph.nodes(), kUnreached);
  queue.assign(1, from);
  hops[from] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const std::uint32_t next : graph.neighbors(queue[head])) {
      if (hops[next] != kUnreached) continue;
      hops[next] = hops[queue[head]] + 1;
      queue.push_back(next);
    }
  }
  return queue.size();
}

// The diameter of a connected graph, by spreading marks of 64 origins, the bits of a word, one hop per round
// against the arcs. Fast for a small diameter, which large graphs usually have.
std::uint32_t spread(const Graph& graph) {
  const std::uint32_t n = graph.nodes();
  std::vector<std::uint64_t> known(n), next(n);
  std::uint32_t longest = 0;
  for (std::uint32_t origin = 0; origin < n; origin += 64) {
    const std::uint32_t origins = std::min<std::uint32_t>(64, n - origin);
    const std::uint64_t all = origins == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << origins) - 1;
    std::fill(known.begin(), known.end(), 0);
    for (std::uint32_t i = 0; i < origins; ++i) known[origin + i] = std::uint64_t{1} << i;
    std::uint32_t rounds = 0;
    for (bool everywhere = n == 1; !everywhere; ++rounds) {
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

// Whether every node reaches node 0 along the arcs.
bool all_reach_first(const Graph& graph) {
  std::vector<std::size_t> begin(std::size_t{graph.nodes()} + 1);
  for (std::uint32_t i = 0; i < graph.nodes(); ++i)
    for (const std::uint32_t j : graph.neighbors(i)) ++begin[j + 1];
  for (std::size_t i = 0; i < graph.nodes(); ++i) begin[i + 1] += begin[i];
  std::vector<std::uint32_t> senders(begin.back());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t i = 0; i < graph.nodes(); ++i)
    for (const std::uint32_t j : graph.neighbors(i)) senders[next[j]++] = i;

  std::vector<bool> seen(graph.nodes());
  seen[0] = true;
  std::vector<std::uint32_t> queue{0};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const std::uint32_t here = queue[head];
    for (std::size_t k = begin[here]; k < begin[here + 1]; ++k) {
      if (seen[senders[k]]) continue;
      seen[senders[k]] = true;
      queue.push_back(senders[k]);
    }
  }
  return queue.size() == graph.nodes();
}

}  // namespace

bool is_connected(const Graph& graph) {
  if (graph.nodes() == 0) return true;
  std::vector<std::uint32_t> hops, queue;
  return search(graph, 0, hops, queue) == graph.nodes() && (!graph.directed() || all_reach_first(graph));
}

bool is_bipartite(const Graph& graph) {
  if (graph.directed()) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> arcs;
    graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) { arcs.emplace_back(i, j); });
    return is_bipartite(Graph::from_edges(graph.nodes(), std::move(arcs)));
  }
  std::vector<std::uint32_t> color(graph.nodes(), kUnreached), queue;
  for (std::uint32_t root = 0; root < graph.nodes(); ++root) {
    if (color[root] != kUnreached) continue;
    color[root] = 0;
    queue.assign(1, root);
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::uint32_t here = queue[head];
      for (const std::uint32_t next : graph.neighbors(here)) {
        if (color[next] == color[here]) return false;
        if (color[next] != kUnreached) continue;
        color[next] = 1 - color[here];
        queue.push_back(next);
      }
    }
  }
  return true;
}

std::optional<std::uint32_t> diameter(const Graph& graph) {
  const double n = graph.nodes(), links = static_cast<double>(graph.link_count());
  if (graph.nodes() > 1 && links == n * (n - 1)) return 1;
  if (!is_connected(graph)) return std::nullopt;
  if (graph.nodes() <= 1) return 0;
  std::vector<std::uint32_t> hops, queue;
  search(graph, 0, hops, queue);
  const std::uint32_t farthest = queue.back(), radius = hops[farthest];
  if (!graph.directed() && links == 2 * (n - 1)) {  // a tree: a longest path starts at a farthest node
    search(graph, farthest, hops, queue);
    return hops[queue.back()];
  }
  // The diameter is at least the radius and, without directions, at most twice the radius.
  const double search_links = n * links, spread_words = 2.0 * radius * std::ceil(n / 64) * (links + n);
  if (spread_words <= kWordsMax && spread_words <= 4 * search_links) return spread(graph);
  if (search_links > kSearchLinksMax) return std::nullopt;
  std::uint32_t longest = 0;
  for (std::uint32_t from = 0; from < graph.nodes(); ++from) {
    search(graph, from, hops, queue);
    longest = std::max(longest, hops[queue.back()]);
  }
  return longest;
}

std::vector<std::vector<std::uint32_t>> all_hops(const Graph& graph) {
  std::vector<std::vector<std::uint32_t>> hops(graph.nodes());
  std::vector<std::uint32_t> queue;
  for (std::uint32_t from = 0; from < graph.nodes(); ++from) search(graph, from, hops[from], queue);
  return hops;
}

}  // namespace starling::topologies
