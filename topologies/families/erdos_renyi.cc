// The random graph G(n, p): each pair is linked independently with probability p (Gilbert, "Random graphs",
// Annals of Mathematical Statistics 30, 1959; Erdos & Renyi, "On random graphs I", 1959). The threshold for
// connectivity is p = ln n / n; the default is twice that, about 2 ln n links per peer.
//
// A pair is linked if a hash of its two keys is below p, so a peer that joins or leaves changes no link among
// the others (a few with the default p, which depends on n). Draws that are not connected are skipped. If
// none is connected, because p is too small, `among` adds a ring to the last one, and the Error of `exists`
// names a sufficient p.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "topologies/families/drawn.h"
#include "topologies/family.h"

namespace starling::topologies {
namespace {

double usual_probability(std::uint32_t n) {
  return n < 2 ? 1 : std::min(1.0, 2 * std::log(double{1} * n) / n);
}

// Unless `whole`, stops at a vertex without links, which shows that the graph is not connected.
Adjacency draw(std::span<const VertexKey> keys, double p, std::uint64_t seed, bool whole) {
  const auto n = static_cast<std::uint32_t>(keys.size());
  Adjacency links(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t j = i + 1; j < n; ++j)
      if (is_below(hash_of_pair(seed, keys[i], keys[j]), p)) links.add(i, j);
    if (!whole && n > 1 && links.degree(i) == 0) break;
  }
  return links;
}

std::optional<Adjacency> draw_connected(std::span<const VertexKey> keys, double p, std::uint64_t seed) {
  return first_connected(seed, [&](std::uint64_t one) { return draw(keys, p, one, false); });
}

}  // namespace

Result<Family> make_erdos_renyi(Name& name) {
  const bool usual = !name.has("p");
  const auto given = name.real("p", 1, 0, 1);
  if (!given) return given.error();
  const auto seed = name.whole("seed", 1, 0, UINT64_MAX);
  if (!seed) return seed.error();
  const auto probability = [usual, p = *given](std::uint32_t n) { return usual ? usual_probability(n) : p; };

  Family family;
  family.among = [probability, seed = *seed](std::span<const VertexKey> vertices) {
    const double p = probability(static_cast<std::uint32_t>(vertices.size()));
    std::optional<Adjacency> links = draw_connected(vertices, p, seed);
    if (!links) {
      links = draw(vertices, p, hash_of(seed, kTries - 1), true);
      links->add_ring();
    }
    return std::move(*links).schedule();
  };
  family.exists = [probability, seed = *seed, text = name.text()](std::uint32_t peers) -> Status {
    if (draw_connected(default_keys(peers), probability(peers), seed)) return Done{};
    return Error{"topology '" + text + "' does not exist for " + std::to_string(peers) +
                 " peers, because none of " + std::to_string(kTries) +
                 " draws is connected; expected p of at least " +
                 format_number(std::ceil(1000 * usual_probability(peers)) / 1000)};
  };
  return family;
}

}  // namespace starling::topologies
