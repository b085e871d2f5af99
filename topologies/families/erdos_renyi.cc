// The random graph G(n, p): each pair is linked with probability p by itself (Gilbert, "Random graphs",
// Annals of Mathematical Statistics 30, 1959; Erdos & Renyi, "On random graphs I", 1959). From p = ln n / n
// on it is connected; the default is twice that, so about 2 ln n links each.
//
// A pair is linked where a hash of its two keys is below p, so whoever comes or goes changes no link among
// the others (with the default p, which depends on n, a few). Draws that are not connected are passed over.
// Where none is, because p is too small, a swarm gets the last one with a ring under it; who asks for it by
// hand is told which p would do.
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

// `whole`: to the end, even when a vertex without a link shows that it is not connected.
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
    return Error{"topology '" + text + "' among " + std::to_string(peers) +
                 " peers does not exist, since none of " + std::to_string(kTries) +
                 " draws is connected; p from " +
                 format_number(std::ceil(1000 * usual_probability(peers)) / 1000) + " on is right"};
  };
  return family;
}

}  // namespace starling::topologies
