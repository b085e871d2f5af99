// A small world: a ring in which everybody is beside the k / 2 nearest on either side, with each link's far
// end moved, with probability p, to a vertex at random. A few such short cuts take the diameter from n / k to
// about log n, and most links still are local (Watts & Strogatz, "Collective dynamics of 'small-world'
// networks", Nature 393, 1998).
//
// The number of links stays n k / 2. Whether a link moves, and where to, follows from the key at its near
// end, so a peer that leaves changes only what was around it. Draws that are not connected (rare, but with k
// = 2) are passed over. Where none is, a swarm gets the last one with a ring under it; who asks for it by
// hand is told so. A k that is not below n is lowered.
#include <algorithm>
#include <string>

#include "topologies/families/drawn.h"
#include "topologies/family.h"

namespace starling::topologies {
namespace {

constexpr std::uint64_t kTargets = 64;  // tried for a link; a vertex beside nearly everyone may keep it

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
                 "; an even number is right, since half of a peer's links go to either side"};
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
        "topology '" + text + "' among " + std::to_string(peers) + " peers does not exist, since ";
    if (k >= peers)
      return Error{what + "none has " + std::to_string(k) + " others to link to; " +
                   (peers > 3 ? "an even k below " + std::to_string(peers) + ", or " : std::string()) +
                   "more than " + std::to_string(k) + " peers are right"};
    if (first_connected(seed, one_draw(default_keys(peers)))) return Done{};
    return Error{what + "none of " + std::to_string(kTries) +
                 " draws is connected; a smaller p or k=" + std::to_string(k + 2) + " is right"};
  };
  return family;
}

}  // namespace starling::topologies
