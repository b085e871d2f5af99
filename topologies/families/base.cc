// Base-(k+1) graphs: a schedule of rounds with at most k links per peer after which lock-step averaging is
// exact, for any number of peers (Takezawa, Sato, Bao, Niwa & Yamada, "Beyond exponential graph:
// communication-efficient topologies for decentralized learning via finite-time convergence", NeurIPS 2023,
// arXiv:2305.11420).
//
// There are three constructions, each built from the previous one; b = k + 1.
//
// - Hyper-hypercube: n is a product of factors up to b. In round l, peers whose numbers differ only in the
//   l-th digit, in this mixed radix, average completely.
// - Simple base: n = a_1 b^p_1 + a_2 b^p_2 + ... with p_1 > p_2 > ... The peers are divided into parts of
//   these sizes, part l into a_l pieces of b^p_l. First every part averages internally. Then, part by part,
//   every peer after part l links to one peer in each piece of the part, with weights that give each piece,
//   and all peers after the part together, the global mean. The pieces average internally while the peers
//   after the part continue with part l + 1. The last part is exact by then.
// - Base-(k+1): n = p q, where p is the largest divisor without a prime factor above b. A simple base within
//   each of p groups of q, then a hyper-hypercube across them, if this takes fewer rounds than a simple base.
//
// The weights come from the round's mixing matrix, which is symmetric and doubly stochastic.
#include <algorithm>
#include <string>
#include <utility>

#include "topologies/family.h"

namespace starling::topologies {
namespace {

using Factors = std::vector<std::uint32_t>;

// Extends `chosen` by factors of n in descending order, none above `most`; `best` gets the shortest list.
void search_factors(std::uint32_t n, std::uint32_t most, Factors& chosen, Factors& best) {
  if (!best.empty() && chosen.size() + (n > 1 ? 1 : 0) >= best.size()) return;
  if (n == 1) {
    best = chosen;
    return;
  }
  for (std::uint32_t factor = std::min(n, most); factor >= 2; --factor) {
    if (n % factor != 0) continue;
    chosen.push_back(factor);
    search_factors(n / factor, factor, chosen, best);
    chosen.pop_back();
  }
}

// n as a product of the fewest factors up to `most`. REQUIRES: no prime factor of n is above `most`.
Factors fewest_factors(std::uint32_t n, std::uint32_t most) {
  Factors chosen, best;
  search_factors(n, most, chosen, best);
  return best;
}

// Round `round` of the hyper-hypercube of the peers from `first` on, as many as the product of `factors`.
void link_hypercube(const Factors& factors, std::size_t round, std::uint32_t first, std::uint32_t peer,
                    Links& links) {
  if (round >= factors.size()) return;
  std::uint32_t stride = 1;
  for (std::size_t l = 0; l < round; ++l) stride *= factors[l];
  const std::uint32_t digit = (peer - first) / stride % factors[round];
  const std::uint32_t lowest = peer - digit * stride;
  for (std::uint32_t d = 0; d < factors[round]; ++d)
    if (d != digit) links.push_back({lowest + d * stride, 1.0 / factors[round]});
}

class SimpleBase {
 public:
  SimpleBase(std::uint32_t n, std::uint32_t k) {
    const std::uint32_t b = k + 1;
    std::uint32_t power = 1, exponent = 0;
    for (; power <= n / b; ++exponent) power *= b;
    for (std::uint32_t first = 0; power > 0; power /= b, --exponent) {
      const std::uint32_t pieces = (n - first) / power;
      if (pieces == 0) continue;
      Part part{first, pieces, power, n - first - pieces * power, Factors(exponent, b), Factors(exponent, b)};
      if (pieces > 1) part.whole.push_back(pieces);
      parts_.push_back(std::move(part));
      first += pieces * power;
    }
    within_ = parts_[0].whole.size();
    rounds_ = within_;
    for (std::size_t l = 0; l + 1 < parts_.size(); ++l)
      rounds_ = std::max(rounds_, within_ + l + 1 + parts_[l].piece.size());
  }

  std::size_t rounds() const { return rounds_; }

  void link(std::uint32_t peer, std::size_t round, std::uint32_t offset, Links& links) const {
    const std::size_t begin = links.size();
    const auto behind =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.first > peer; });
    const Part& own = *(behind - 1);
    const auto l = static_cast<std::size_t>(behind - 1 - parts_.begin());
    if (round < within_) {
      link_hypercube(own.whole, round, own.first, peer, links);
    } else if (const std::size_t s = round - within_; s < l) {  // linking to an earlier part
      const Part& part = parts_[s];
      const std::uint32_t place = peer - (part.first + part.pieces * part.power);
      for (std::uint32_t piece = 0; piece < part.pieces; ++piece)
        links.push_back({part.first + piece * part.power + place, part.weight()});
    } else if (const std::uint32_t place = (peer - own.first) % own.power; s == l) {
      if (place < own.rest) links.push_back({own.first + own.pieces * own.power + place, own.weight()});
    } else if (own.rest > 0) {  // the last part is exact already
      link_hypercube(own.piece, s - l - 1, peer - place, peer, links);
    }
    for (std::size_t i = begin; i < links.size(); ++i) links[i].peer += offset;
  }

 private:
  struct Part {
    std::uint32_t first;   // its first peer
    std::uint32_t pieces;  // a_l
    std::uint32_t power;   // b^p_l, the size of a piece
    std::uint32_t rest;    // number of peers after it; fewer than `power`
    Factors piece, whole;  // of the hyper-hypercubes within a piece and within the part

    // |V_l| / (a_l (|V_l| + |V_l+1| + ...))
    double weight() const { return power / (double{1} * pieces * power + rest); }
  };
  std::vector<Part> parts_;
  std::size_t within_ = 0;  // rounds until every part has averaged internally
  std::size_t rounds_ = 0;
};

// A simple base within each group of `size`, then a hyper-hypercube across the groups.
struct Plan {
  std::uint32_t size;
  SimpleBase within;
  Factors across;

  std::size_t rounds() const { return within.rounds() + across.size(); }

  Links links(std::uint32_t peer, std::uint64_t round) const {
    Links links;
    if (round < within.rounds()) {
      within.link(peer % size, round, peer - peer % size, links);
      return links;
    }
    link_hypercube(across, round - within.rounds(), 0, peer / size, links);
    for (Link& link : links) link.peer = link.peer * size + peer % size;
    return links;
  }
};

Plan plan(std::uint32_t n, std::uint32_t k) {
  std::uint32_t smooth = 1;
  // Composites do not divide the rest.
  for (std::uint32_t prime = 2, rest = n; prime <= std::min(k + 1, rest); ++prime)
    for (; rest % prime == 0; rest /= prime) smooth *= prime;
  Plan simple{n, SimpleBase(n, k), {}};
  Plan split{n / smooth, SimpleBase(n / smooth, k), fewest_factors(smooth, k + 1)};
  return split.rounds() < simple.rounds() ? std::move(split) : std::move(simple);
}

}  // namespace

Result<Family> make_base(Name& name) {
  const auto k = name.whole("k", 1, 1, 65535);
  if (!k) return k.error();
  Family family;
  family.among = [most = static_cast<std::uint32_t>(*k)](std::span<const VertexKey> vertices) {
    const auto n = static_cast<std::uint32_t>(vertices.size());
    Plan rounds = plan(n, std::clamp(n - 1, 1u, most));
    const Schedule::Traits traits{.period = std::max<std::uint64_t>(1, rounds.rounds()),
                                  .weights = Weights::mixing};
    return Schedule(n, traits, [rounds = std::move(rounds)](std::uint32_t peer, std::uint64_t round) {
      return rounds.links(peer, round);
    });
  };
  family.exists = [text = name.text(), most = *k](std::uint32_t peers) -> Status {
    if (most < peers) return Done{};
    return Error{"topology '" + text + "' does not exist for " + std::to_string(peers) +
                 " peers, because no peer has " + std::to_string(most) + " others to link to; expected " +
                 (peers > 2 ? "k from 1 to " + std::to_string(peers - 1) + ", or more than " : "more than ") +
                 std::to_string(most) + " peers"};
  };
  return family;
}

}  // namespace starling::topologies
