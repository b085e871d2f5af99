// Shared by the families that draw their links at random: hashes of keys, and lists of links.
//
// Links follow from hashes of vertex keys, never from the numbers of vertices or the state of a generator. So
// a draw for a pair does not depend on the other vertices, and a join or a leave changes few links.
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
// A hash of an unordered pair of keys.
inline std::uint64_t hash_of_pair(std::uint64_t seed, VertexKey a, VertexKey b) {
  return a < b ? hash_of(seed, a, b) : hash_of(seed, b, a);
}
// True for a fraction `probability` of all hashes; for all if it is 1 or more.
inline bool is_below(std::uint64_t hash, double probability) {
  return static_cast<double>(hash >> 11) * 0x1p-53 < probability;
}

// Vertices in the order of the hashes of their keys under a seed. Every order is equally likely, and vertices
// that are added or removed do not change the order of the others.
struct HashedVertex {
  std::uint64_t hash;
  std::uint32_t vertex;
  friend auto operator<=>(const HashedVertex&, const HashedVertex&) = default;
};
std::vector<HashedVertex> sorted_by_hash(std::span<const VertexKey> keys, std::uint64_t seed);

// Chooses a vertex by a hash, each with the same probability. Repeatedly halves the range of hashes and takes
// a half with a probability proportional to its number of vertices, so adding or removing a vertex changes
// about one choice in n / log n.
class Pick {
 public:
  Pick(std::span<const VertexKey> keys, std::uint64_t seed) : vertices_(sorted_by_hash(keys, seed)) {}
  std::uint32_t operator()(std::uint64_t hash) const;

 private:
  std::vector<HashedVertex> vertices_;
};

// Undirected links without weights; both ends list each other.
class Adjacency {
 public:
  explicit Adjacency(std::uint32_t vertices) : lists_(vertices) {}

  std::uint32_t vertices() const { return static_cast<std::uint32_t>(lists_.size()); }
  std::size_t degree(std::uint32_t vertex) const { return lists_[vertex].size(); }
  bool has(std::uint32_t a, std::uint32_t b) const;
  void add(std::uint32_t a, std::uint32_t b);     // REQUIRES: a != b, and the link does not exist
  void remove(std::uint32_t a, std::uint32_t b);  // REQUIRES: the link exists
  void add_ring();  // adds the missing links of the ring in the order of the numbers
  bool is_connected() const;
  Adjacency complement() const;

  Schedule schedule() &&;  // static

 private:
  std::vector<std::vector<std::uint32_t>> lists_;
};

// The first connected one of up to kTries draws, draw(seed) -> Adjacency, each with its own seed: a draw from
// the family's distribution, conditioned on being connected. nullopt if none is connected.
inline constexpr std::uint64_t kTries = 64;
template <class Draw>
std::optional<Adjacency> first_connected(std::uint64_t seed, Draw draw) {
  for (std::uint64_t salt = 0; salt < kTries; ++salt)
    if (Adjacency links = draw(hash_of(seed, salt)); links.is_connected()) return links;
  return std::nullopt;
}

}  // namespace starling::topologies
