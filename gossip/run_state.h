// What the parts of a Peer share: options, time, membership, the run's rules, and whether the peer is leaving
// or without a replica. Parts hold a reference to it; none of them knows the Peer or another part by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/membership.h"
#include "gossip/peer_options.h"

namespace starling::gossip {

// Independent random streams of a peer's seed.
enum class Stream : std::uint64_t { membership = 1, partners, own, pace };

struct RunState {
  explicit RunState(PeerOptions peer_options);

  PeerOptions options;
  Random random;  // Stream::own, for joining and copying
  Membership membership;
  Instant now;
  Instant run_start;
  std::optional<RunRules> rules;  // once prepared
  bool diverged = false;          // its replica is lost and not replaced yet
  bool leaving = false;
  bool over = false;

  wire::Phase phase() const { return membership.self().phase; }
  std::uint64_t steps() const { return membership.self().steps; }
  const RuleTraits& rule() const { return traits(rules ? rules->rule : Rule::none); }
  Random stream(Stream purpose) const {
    return Random(options.seed).split(static_cast<std::uint64_t>(purpose));
  }

  // The last action.
  void finish(Finish::How how, std::string why, std::vector<Action>& out);
  // The same after a goodbye to others.
  void say_goodbye_and_finish(Finish::How how, std::string why, std::vector<Action>& out);
};

}  // namespace starling::gossip
