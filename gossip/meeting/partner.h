// Chooses partners. The live members that train, sorted by name, are the vertices of the run's topology.
// Peers with the same view therefore compute the same graph, and the graph heals when members come and go. A
// partner is one of this peer's neighbors with which an exchange may begin: not suspect, not quarantined, and
// not avoided after a failed exchange; once this peer settles, one that has ended its training, too. Two
// peers of which neither can be dialed are neighbors only if a member relays between them; a peer that can
// meet none of its neighbors exchanges with its homes (gossip/members/reach.h).
//
// Asynchronous peers share no rounds. When drawing at random, each non-empty round of a topology that varies
// in time has the same weight, and so has each link of a round: these are the independent draws that
// randomized gossip is analyzed with (topologies/spectra/analysis.h). Taking turns mixes faster, because no
// exchange repeats the last partner (docs/TOPOLOGIES.md).
//
// `aware` prefers neighbors whose exchanges are fast (as in NetMax; Zhou et al., "Communication-efficient
// decentralized machine learning over heterogeneous networks", ICDE 2021) and those that have consumed many
// samples since the last meeting. A quarter of the draws have no preference. Each link is therefore used at
// least a quarter as often as without, no graph falls apart, and the expected mixing per exchange (lambda_2
// of the edge clocks' Laplacian) is at least a quarter too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gossip/events.h"
#include "gossip/members/membership.h"
#include "topologies/topology.h"

namespace starling::gossip {

// The graph's vertices in order: the live members that train, this peer included. Valid until the membership
// changes. Identities are cheap: while more than kNewcomersMax members have introduced themselves and done
// nothing else (neither answered a ping nor completed an exchange), these are no vertices.
std::vector<const wire::Member*> vertices(const Membership& membership);
inline constexpr std::size_t kNewcomersMax = 16;
// Whether there are that many; then the vertices may change without a new version of the membership.
bool is_crowded(const Membership& membership);

class PartnerChooser {
 public:
  static constexpr double kPlainShare = 0.25;  // share of draws without preference, for Partners::aware

  struct Neighbor {
    PeerId id;
    double weight;  // W_ij
  };

  PartnerChooser(topologies::Topology topology, Partners policy, Random random)
      : topology_(std::move(topology)), policy_(policy), random_(random) {}

  void follow(topologies::Topology topology) {
    topology_ = std::move(topology);
    version_ = UINT64_MAX;
  }

  // A partner for the next exchange; nullopt if there is none now.
  std::optional<PeerId> choose(Instant now, const Membership& membership);

  // All neighbors in a lock-step round, available or not, with the weights of its mixing matrix.
  // REQUIRES: the topology is undirected.
  std::vector<Neighbor> neighbors(std::uint64_t round, const Membership& membership);

  // Whether links go one way. False before the first choice.
  bool is_directed() const { return schedule_ && schedule_->directed(); }

  // Rounds until the topology's links repeat, as of the last neighbors(). REQUIRES: it was called.
  std::uint64_t period() const { return schedule_->period(); }

  // The share of its exchanges that this member begins with this peer if it draws by the topology alone. For
  // one that is no neighbor, which may see another graph, as if all vertices were equally likely.
  double share_of(PeerId id, const Membership& membership);

  // An exchange with this member completed or was aborted. `took`: its duration, if this peer began it.
  void met(const Membership& membership, PeerId id, std::optional<Duration> took);

 private:
  struct Acquaintance {
    double seconds = 0;         // per exchange, smoothed; 0: unknown
    std::uint64_t samples = 0;  // consumed by the last meeting
  };

  void refresh(const Membership& membership);
  void learn_links(const Membership& membership);
  std::optional<PeerId> take_turn(Instant now, const Membership& membership);
  std::vector<double> preferences(const Membership& membership, const topologies::Links& links) const;

  topologies::Topology topology_;
  Partners policy_;
  Random random_;
  std::uint64_t version_ = UINT64_MAX;  // of the membership in roster_
  bool crowded_ = false;                // then
  std::vector<PeerId> roster_;          // vertices in order, this peer included
  std::uint32_t own_index_ = 0;
  std::optional<topologies::Schedule> schedule_;  // among them
  topologies::Links links_;                       // of all rounds, weighted by how often to draw each
  std::vector<topologies::Links> turns_;          // Partners::turns: the candidates of each turn
  std::size_t turn_ = 0;
  std::map<PeerId, Acquaintance> acquaintances_;  // Partners::aware
  std::map<PeerId, double> shares_;               // of share_of(), for the vertices in roster_
};

// How far this side of an exchange moves, relative to its full weight, where the run weighs partners
// (gossip.weights); in [1/64, 1]. An exchange with unequal shares does not conserve the sum of both replicas:
// it draws the mean towards the side that counts more.
//
// By work: min(1, 2 s_partner / s_own), s: samples consumed so far. Partners within a factor of two count the
// same. By age: min(1, 8 u / a), a: time since the partner's samples last grew, as known here, u: its usual
// interval between two growths. Progress travels by gossip and may be late, hence the factor of eight.
float own_share(Shares shares, Instant now, const wire::Member& self, const Record& partner);

}  // namespace starling::gossip
