// The topology that the swarm follows, which users may replace while it runs: a register whose latest
// revision wins. The first peers that get a revision send it on at once; comparing digests finds those that
// missed it. Of what one author sets within a second, a peer follows and sends on the first and the latest
// revision, so an author that sets topologies without end causes little work.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/run_state.h"

namespace starling::gossip {

class Rewiring {
 public:
  explicit Rewiring(RunState& run) : run_(run) {}

  // Each returns whether the topology in run.rules has changed.
  bool requested(const RewireRequested& requested, Actions& out);
  bool received(const Received& from, const wire::Rewire& rewire, Actions& out);
  // Adopts a revision that has waited for its author's second.
  bool tick(Actions& out);
  Instant next_deadline() const { return pending_ ? due() : kNever; }
  // Applies the latest revision to run.rules, once these are known.
  bool apply(Actions& out);

  // This peer has this revision: it gets the latest if that is newer.
  void correct(const Endpoint& to, const wire::Revision& theirs, Actions& out) const {
    if (theirs < latest_.revision) out.push_back(Send{to, latest_});
  }
  // Why a RewireRequested with this topology would be rejected, in a sentence.
  std::optional<std::string> obstacle_to_setting(const topologies::Topology& topology) const;

 private:
  // Signed by its author, who is not only an observer.
  bool is_authentic(const wire::Rewire& rewire) const;
  bool adopt(const wire::Rewire& rewire, Actions& out);
  // When the pending revision may be adopted. REQUIRES: there is one.
  Instant due() const;

  RunState& run_;
  wire::Rewire latest_;                              // number 0: the manifest's topology
  std::optional<wire::Rewire> pending_;              // authentic, later than latest_
  std::vector<std::pair<PeerId, Instant>> adopted_;  // authors of the last second, and when; oldest first
};

}  // namespace starling::gossip
