// A random k-regular graph: every peer has exactly k links. With high probability it is nearly optimal for
// degree k: its second eigenvalue is at most 2 sqrt(k - 1) + o(1) (Friedman, "A proof of Alon's second
// eigenvalue conjecture", Memoirs of the AMS 910, 2008), so the gap does not decrease as n grows.
//
// It is the union of k / 2 random Hamiltonian cycles and, for odd k, a random perfect matching. This model is
// contiguous to the uniform one: properties that hold with high probability in one hold in the other
// (Robinson & Wormald, "Almost all regular graphs are Hamiltonian", Random Structures & Algorithms 5, 1994;
// Kim & Wormald, "Random matchings which induce Hamilton cycles and Hamiltonian decompositions of random
// regular graphs", Journal of Combinatorial Theory B 81, 2001). A cycle makes it connected. Each cycle visits
// the vertices in the order of hashes of their keys, so a leave adds one link per cycle.
//
// A link that two cycles share is replaced by reversing a section of the later one (the 2-opt move). If k
// exceeds half of the other peers, the complement is drawn instead. If k and n are odd, one vertex has one
// link less (in the complement: more). If k >= n, the graph is complete.
#include <algorithm>
#include <queue>
#include <string>
#include <tuple>

#include "topologies/families/drawn.h"
#include "topologies/family.h"

namespace starling::topologies {
namespace {

// Adds a Hamiltonian cycle through the vertices in the order of their hashes. Returns false if it cannot
// avoid the existing links.
bool add_cycle(Adjacency& links, std::span<const VertexKey> keys, std::uint64_t seed) {
  const std::vector<HashedVertex> order = sorted_by_hash(keys, seed);
  const std::size_t n = order.size();
  std::vector<std::uint32_t> cycle(n);
  std::transform(order.begin(), order.end(), cycle.begin(),
                 [](const HashedVertex& each) { return each.vertex; });
  const auto at = [&](std::size_t i) -> std::uint32_t& { return cycle[i < n ? i : i - n]; };
  // The last `sound` links up to at(i) are new. Reversing a section moves its links, so the count restarts.
  for (std::size_t i = 0, sound = 0; sound < n; i = (i + 1) % n, ++sound) {
    if (!links.has(at(i), at(i + 1))) continue;
    // a b ... x y becomes a x ... b y: two links, one of them shared, are replaced by two new ones.
    std::size_t stretch = 2;
    while (stretch + 1 < n &&
           (links.has(at(i), at(i + stretch)) || links.has(at(i + 1), at(i + stretch + 1))))
      ++stretch;
    if (stretch + 1 >= n) return false;
    for (std::size_t low = i + 1, high = i + stretch; low < high; ++low, --high) std::swap(at(low), at(high));
    sound = 0;
  }
  for (std::size_t i = 0; i < n; ++i) links.add(at(i), at(i + 1));
  return true;
}

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// A perfect matching, each with the same probability: the vertices are placed on a circle by their hashes,
// and the two closest remaining ones are paired repeatedly. Adding or removing a vertex changes only a few
// pairs around it. One vertex of an odd number stays alone.
Pairs match(std::span<const VertexKey> keys, std::uint64_t seed) {
  const std::vector<HashedVertex> circle = sorted_by_hash(keys, seed);
  const std::size_t n = circle.size();
  std::vector<std::size_t> before(n), behind(n);
  using Gap = std::tuple<std::uint64_t, std::size_t, std::size_t>;  // width, its two ends
  std::priority_queue<Gap, std::vector<Gap>, std::greater<>> gaps;
  const auto join = [&](std::size_t left, std::size_t right) {
    behind[left] = right;
    before[right] = left;
    gaps.emplace(circle[right].hash - circle[left].hash, left, right);
  };
  for (std::size_t i = 0; i < n; ++i) join(i, (i + 1) % n);
  Pairs pairs;
  std::vector<bool> paired(n);
  while (2 * (pairs.size() + 1) <= n) {
    const auto [width, left, right] = gaps.top();
    gaps.pop();
    if (paired[left] || paired[right] || left == right) continue;
    paired[left] = paired[right] = true;
    pairs.emplace_back(circle[left].vertex, circle[right].vertex);
    join(before[left], behind[right]);
  }
  return pairs;
}

// Adds such a matching. Returns false if it cannot avoid the existing links.
bool add_matching(Adjacency& links, std::span<const VertexKey> keys, std::uint64_t seed) {
  Pairs pairs = match(keys, seed);
  for (auto& [a, b] : pairs) {
    if (!links.has(a, b)) continue;
    const auto other = std::find_if(pairs.begin(), pairs.end(), [&, a = a, b = b](const auto& pair) {
      return pair.first != a && !links.has(a, pair.first) && !links.has(b, pair.second);
    });
    if (other == pairs.end()) return false;
    std::swap(b, other->first);  // a with its first, b with its second
  }
  for (const auto& [a, b] : pairs) links.add(a, b);
  return true;
}

std::optional<Adjacency> draw(std::span<const VertexKey> keys, std::uint32_t degree, std::uint64_t seed) {
  Adjacency links(static_cast<std::uint32_t>(keys.size()));
  for (std::uint32_t layer = 0; layer < degree / 2; ++layer)
    if (!add_cycle(links, keys, hash_of(seed, layer))) return std::nullopt;
  if (degree % 2 == 1 && !add_matching(links, keys, hash_of(seed, degree / 2))) return std::nullopt;
  return links;
}

// Used if no draw succeeds: i linked to i +- 1, ..., i +- degree / 2, for odd degrees also opposite vertices.
Adjacency circulant(std::uint32_t n, std::uint32_t degree) {
  Adjacency links(n);
  for (std::uint32_t hop = 1; hop <= degree / 2; ++hop)
    for (std::uint32_t i = 0; i < n; ++i) links.add(i, (i + hop) % n);
  if (degree % 2 == 1)
    for (std::uint32_t i = 0; i < n / 2; ++i) links.add(i, i + n / 2);
  return links;
}

Adjacency regular(std::span<const VertexKey> keys, std::uint32_t k, std::uint64_t seed) {
  const auto n = static_cast<std::uint32_t>(keys.size());
  k = std::min(k, n - 1);
  const bool dense = k > (n - 1) / 2;  // then any graph of degree k is connected (Dirac 1952)
  const std::uint32_t degree = dense ? n - 1 - k : k;
  std::optional<Adjacency> links;
  for (std::uint64_t salt = 0; !links && salt < kTries; ++salt)
    links = draw(keys, degree, hash_of(seed, salt));
  if (!links) links = circulant(n, degree);
  return dense ? links->complement() : std::move(*links);
}

}  // namespace

Result<Family> make_random_regular(Name& name) {
  const auto k = name.whole("k", 4, 2, 65535);
  if (!k) return k.error();
  const auto seed = name.whole("seed", 1, 0, UINT64_MAX);
  if (!seed) return seed.error();
  Family family;
  family.among = [degree = static_cast<std::uint32_t>(*k),
                  seed = *seed](std::span<const VertexKey> vertices) {
    return regular(vertices, degree, seed).schedule();
  };
  family.exists = [text = name.text(), k = *k](std::uint32_t peers) -> Status {
    const std::string what =
        "topology '" + text + "' does not exist for " + std::to_string(peers) + " peers, because ";
    if (k >= peers)
      return Error{what + "no peer has " + std::to_string(k) + " others to link to; expected " +
                   (peers > 3 ? "k from 2 to " + std::to_string(peers - 1) + ", or " : std::string()) +
                   "more than " + std::to_string(k) + " peers"};
    if (k % 2 == 1 && peers % 2 == 1)
      return Error{what + "an odd number of peers cannot each have an odd number of links; expected k=" +
                   std::to_string(k - 1) + ", or " + std::to_string(peers + 1) + " peers"};
    return Done{};
  };
  return family;
}

}  // namespace starling::topologies
