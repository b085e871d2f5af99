#include "topologies/families/drawn.h"

#include <algorithm>
#include <array>

namespace starling::topologies {

std::uint64_t hash_of(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  const std::array<std::uint64_t, 2> both{a, b};
  return hash64(std::as_bytes(std::span(both)), seed);
}

std::vector<HashedVertex> sorted_by_hash(std::span<const VertexKey> keys, std::uint64_t seed) {
  std::vector<HashedVertex> all;
  all.reserve(keys.size());
  for (std::uint32_t i = 0; i < keys.size(); ++i) all.push_back({hash_of(seed, keys[i]), i});
  std::sort(all.begin(), all.end());
  return all;
}

std::uint32_t Pick::operator()(std::uint64_t hash) const {
  auto begin = vertices_.begin(), end = vertices_.end();
  std::uint64_t lowest = 0;  // lower end of the hash range of [begin, end)
  for (std::uint64_t half = std::uint64_t{1} << 63; half > 0 && end - begin > 1; half /= 2) {
    const auto middle = std::lower_bound(begin, end, HashedVertex{lowest + half, 0});
    const double share = static_cast<double>(middle - begin) / static_cast<double>(end - begin);
    if (is_below(hash_of(hash, lowest, half), share)) {
      end = middle;
    } else {
      begin = middle;
      lowest += half;
    }
  }
  return begin->vertex;
}

bool Adjacency::has(std::uint32_t a, std::uint32_t b) const {
  const auto& shorter = lists_[degree(a) <= degree(b) ? a : b];
  return std::find(shorter.begin(), shorter.end(), &shorter == &lists_[a] ? b : a) != shorter.end();
}

void Adjacency::add(std::uint32_t a, std::uint32_t b) {
  STARLING_CHECK(a != b);
  lists_[a].push_back(b);
  lists_[b].push_back(a);
}

void Adjacency::remove(std::uint32_t a, std::uint32_t b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    auto& list = lists_[from];
    const auto found = std::find(list.begin(), list.end(), to);
    STARLING_CHECK(found != list.end());
    *found = list.back();
    list.pop_back();
  }
}

void Adjacency::add_ring() {
  for (std::uint32_t i = 0; i < vertices(); ++i) {
    const std::uint32_t next = i + 1 == vertices() ? 0 : i + 1;
    if (next != i && !has(i, next)) add(i, next);
  }
}

bool Adjacency::is_connected() const {
  std::vector<bool> seen(lists_.size());
  std::vector<std::uint32_t> open{0};
  seen[0] = true;
  std::size_t found = 1;
  while (!open.empty()) {
    const std::uint32_t vertex = open.back();
    open.pop_back();
    for (const std::uint32_t other : lists_[vertex]) {
      if (seen[other]) continue;
      seen[other] = true;
      ++found;
      open.push_back(other);
    }
  }
  return found == lists_.size();
}

Adjacency Adjacency::complement() const {
  Adjacency links(vertices());
  std::vector<bool> linked(lists_.size());
  for (std::uint32_t i = 0; i < vertices(); ++i) {
    linked.assign(lists_.size(), false);
    for (const std::uint32_t other : lists_[i]) linked[other] = true;
    for (std::uint32_t j = i + 1; j < vertices(); ++j)
      if (!linked[j]) links.add(i, j);
  }
  return links;
}

Schedule Adjacency::schedule() && {
  const std::uint32_t n = vertices();
  return Schedule(n, {}, [lists = std::move(lists_)](std::uint32_t peer, std::uint64_t) {
    Links links;
    for (const std::uint32_t other : lists[peer]) links.push_back({other});
    return links;
  });
}

}  // namespace starling::topologies
