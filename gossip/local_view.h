// A peer's local view of the swarm: its own entry, the table of the others, and the random stream that all
// parts of a Membership (Rumors, Prober, ...) draw from. The parts share one LocalView by reference. It
// stores, digests and samples, and never sends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "gossip/members.h"
#include "wire/messages.h"

namespace starling::gossip {

struct MembershipOptions {
  Duration probe_interval = std::chrono::seconds(1);  // between two probes
  std::size_t helpers = 3;                            // asked to probe a silent member
  // A suspect has multiplier x max(1, log10 n) x probe_interval to refute. Three further accusers halve that,
  // to multiplier x probe_interval at least.
  double suspicion_multiplier = 4;
  // Between two Gossips, plus a pause for every entry of the last one. This bounds what a peer sends in a
  // swarm of any size.
  Duration gossip_interval = std::chrono::milliseconds(100);
  Duration gossip_interval_per_entry = std::chrono::milliseconds(5);
  Duration sync_min = std::chrono::milliseconds(500);  // between two Digests while views differ ...
  Duration sync_max = std::chrono::seconds(10);        // ... doubled while they agree
  Duration retry_min = std::chrono::seconds(1);     // between retries of failed members, after a failure ...
  Duration retry_max = std::chrono::seconds(30);    // ... doubled, with jitter
  Duration tombstone_life = std::chrono::hours(2);  // members that left or were superseded are kept for this
  Duration quarantine = std::chrono::seconds(60);
  std::size_t members_max = 65536;  // in the table; the longest dead make room
};

struct LocalView {
  MembershipOptions options;
  wire::Member self;
  Random random;
  std::optional<wire::Vitals> vitals{};  // this peer's own
  wire::Revision topology{};
  Members members{};
  std::uint64_t last_sequence = 0;  // of this peer's Pings

  // Equal if two peers agree on who lives, in which incarnation and phase, themselves included.
  std::vector<std::uint64_t> digest() const;
  // A random live member; null if there is none.
  Record* draw_live();
  // `count` different ones, or all if there are not more.
  std::vector<PeerId> draw_live(std::size_t count);
  // Now plus a random part of the interval, so that peers started together do not stay in phase.
  Instant jittered(Instant now, Duration interval);
  // The interval, up to a quarter shorter or longer.
  Duration varied(Duration interval) {
    return from_seconds(to_seconds(interval) * random.uniform(0.75, 1.25));
  }
};

}  // namespace starling::gossip
