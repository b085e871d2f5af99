// What the families that draw their links share: chance from keys, and links under construction.
//
// Who meets whom follows from hashes of vertex keys, never from their numbers or from a generator's next
// value: the outcome for one pair then does not depend on who else is there, and barely anything moves when a
// peer comes or goes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "topologies/schedule.h"

namespace starling::topologies {

// A hash of two values under a seed.
std::uint64_t hash_of(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0);
// Of an unordered pair of keys.
inline std::uint64_t hash_of_pair(std::uint64_t seed, VertexKey a, VertexKey b) {
  return a < b ? hash_of(seed, a, b) : hash_of(seed, b, a);
}
// True of a share `probability` of all hashes; 1 and above: of all.
inline bool is_below(std::uint64_t hash, double probability) {
  return static_cast<double>(hash >> 11) * 0x1p-53 < probability;
}

// Vertices in the order of their keys' hashes under a seed: every order is equally likely, and the order of
// those who stay is the same whoever comes or goes.
struct Place {
  std::uint64_t hash;
  std::uint32_t vertex;
  friend auto operator<=>(const Place&, const Place&) = default;
};
std::vector<Place> places(std::span<const VertexKey> keys, std::uint64_t seed);

// One vertex of all by a hash, each equally likely. Halves the range of hashes again and again, and goes to
// either half with the chance that its number of vertices has; so another vertex more or less changes one
// pick in about n / log n.
class Pick {
 public:
  Pick(std::span<const VertexKey> keys, std::uint64_t seed) : places_(places(keys, seed)) {}
  std::uint32_t operator()(std::uint64_t hash) const;

 private:
  std::vector<Place> places_;
};

// Undirected links without weights, each end knowing the other.
class Adjacency {
 public:
  explicit Adjacency(std::uint32_t vertices) : lists_(vertices) {}

  std::uint32_t vertices() const { return static_cast<std::uint32_t>(lists_.size()); }
  std::size_t degree(std::uint32_t vertex) const { return lists_[vertex].size(); }
  bool has(std::uint32_t a, std::uint32_t b) const;
  void add(std::uint32_t a, std::uint32_t b);     // REQUIRES: a != b, and no such link is there
  void remove(std::uint32_t a, std::uint32_t b);  // REQUIRES: such a link is there
  void add_ring();  // whatever is missing of the ring in the order of the numbers
  bool is_connected() const;
  Adjacency complement() const;

  Schedule schedule() &&;  // static

 private:
  std::vector<std::vector<std::uint32_t>> lists_;
};

// The first connected one of up to 64 draws, draw(seed) -> Adjacency, each under a seed of its own: a draw
// from the family's distribution given that it is connected. nullopt where none is.
inline constexpr std::uint64_t kTries = 64;
template <class Draw>
std::optional<Adjacency> first_connected(std::uint64_t seed, Draw draw) {
  for (std::uint64_t salt = 0; salt < kTries; ++salt)
    if (Adjacency links = draw(hash_of(seed, salt)); links.is_connected()) return links;
  return std::nullopt;
}

}  // namespace starling::topologies
