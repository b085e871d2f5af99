// A small world: a ring in which every peer is linked to the k / 2 nearest on each side; the far end of each
// link is moved, with probability p, to a random vertex. A few such shortcuts reduce the diameter from n / k
// to about log n, while most links stay local (Watts & Strogatz, "Collective dynamics of 'small-world'
// networks", Nature 393, 1998).
//
// The number of links stays n k / 2. Whether and where a link moves follows from the key at its near end, so
// a peer that leaves changes only links near it. Draws that are not connected (rare except for k = 2) are
// skipped. If none is connected, `among` adds a ring to the last one, and `exists` returns an Error. A k of n
// or more is lowered.
#include <algorithm>
#include <string>

#include "topologies/families/drawn.h"
#include "topologies/family.h"

namespace starling::topologies {
namespace {

constexpr std::uint64_t kTargets = 64;  // tried for a link; if all fail, it stays

Adjacency draw(std::span<const VertexKey> keys, std::uint32_t k, double p, std::uint64_t seed) {
  const auto n = static_cast<std::uint32_t>(keys.size());
  const std::uint32_t laps = std::max(1u, std::min(k, n - 1) / 2);
  Adjacency links(n);
  for (std::uint32_t lap = 1; lap <= laps; ++lap)
    for (std::uint32_t i = 0; i < n; ++i)
      if (const std::uint32_t near = (i + lap) % n; near != i && !links.has(i, near)) links.add(i, near);
  const Pick pick(keys, seed);
  for (std::uint32_t lap = 1; lap <= laps; ++lap) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint64_t chance = hash_of(seed, keys[i], lap);
      if (!is_below(chance, p)) continue;
      for (std::uint64_t attempt = 0; attempt < kTargets; ++attempt) {
        const std::uint32_t target = pick(hash_of(chance, attempt));
        if (target == i || links.has(i, target)) continue;
        links.remove(i, (i + lap) % n);
        links.add(i, target);
        break;
      }
    }
  }
  return links;
}

}  // namespace

Result<Family> make_small_world(Name& name) {
  const auto k = name.whole("k", 4, 2, 65534);
  if (!k) return k.error();
  const auto p = name.real("p", 0.1, 0, 1);
  if (!p) return p.error();
  const auto seed = name.whole("seed", 1, 0, UINT64_MAX);
  if (!seed) return seed.error();
  if (*k % 2 == 1)
    return Error{"topology '" + name.text() + "': k is " + std::to_string(*k) +
                 "; expected an even number, because half of a peer's links go to each side"};
  const auto one_draw = [k = static_cast<std::uint32_t>(*k), p = *p](std::span<const VertexKey> keys) {
    return [=](std::uint64_t seed_of_draw) { return draw(keys, k, p, seed_of_draw); };
  };

  Family family;
  family.among = [one_draw, seed = *seed](std::span<const VertexKey> vertices) {
    std::optional<Adjacency> links = first_connected(seed, one_draw(vertices));
    if (!links) {
      links = one_draw(vertices)(hash_of(seed, kTries - 1));
      links->add_ring();
    }
    return std::move(*links).schedule();
  };
  family.exists = [one_draw, k = *k, seed = *seed, text = name.text()](std::uint32_t peers) -> Status {
    const std::string what =
        "topology '" + text + "' does not exist for " + std::to_string(peers) + " peers, because ";
    if (k >= peers)
      return Error{what + "no peer has " + std::to_string(k) + " others to link to; expected " +
                   (peers > 3 ? "an even k below " + std::to_string(peers) + ", or " : std::string()) +
                   "more than " + std::to_string(k) + " peers"};
    if (first_connected(seed, one_draw(default_keys(peers)))) return Done{};
    return Error{what + "none of " + std::to_string(kTries) +
                 " draws is connected; expected a smaller p or k=" + std::to_string(k + 2)};
  };
  return family;
}

}  // namespace starling::topologies
