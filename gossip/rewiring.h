// The topology that the swarm follows, which users may replace while it runs: a register whose latest
// revision wins. The first peers that get a revision send it on at once; comparing digests finds those that
// missed it.
#pragma once

#include <optional>
#include <string>

#include "gossip/run_state.h"

namespace starling::gossip {

class Rewiring {
 public:
  explicit Rewiring(RunState& run) : run_(run) {}

  // Each returns whether the topology in run.rules has changed.
  bool requested(const RewireRequested& requested, Actions& out);
  bool received(const Received& from, const wire::Rewire& rewire, Actions& out);
  // Applies the latest revision to run.rules, once these are known.
  bool apply(Actions& out);

  // This peer has this revision: it gets the latest if that is newer.
  void correct(const Endpoint& to, const wire::Revision& theirs, Actions& out) const {
    if (theirs < latest_.revision) out.push_back(Send{to, latest_});
  }
  // Why a RewireRequested with this topology would be rejected, in a sentence.
  std::optional<std::string> obstacle_to_setting(const topologies::Topology& topology) const;

 private:
  bool is_authentic(const wire::Rewire& rewire) const {
    const PeerOptions& options = run_.options;
    return !options.membership.guards.signatures || gossip::is_authentic(*options.identity, rewire);
  }
  bool adopt(const wire::Rewire& rewire, Actions& out);

  RunState& run_;
  wire::Rewire latest_;  // number 0: the manifest's topology
};

}  // namespace starling::gossip
