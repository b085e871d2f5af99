// Who is in the swarm, and who is still alive: a small state machine of the core. It probes the others in
// turn, suspects those that stay silent, declares suspects failed after a while, refutes what is wrongly said
// about itself, and spreads what it knows (members and their progress) to random members. The shape is SWIM's
// (Das et al., DSN 2002): round-robin probes, suspicion before failure, incarnations that only their owner
// may raise, news piggybacked on every message. Only direct evidence (a verified message from the peer
// itself) counts as a sign of life.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "wire/messages.h"

namespace starling::gossip {

struct MembershipOptions {
  Duration probe_interval = std::chrono::seconds(1);
  Duration probe_timeout = std::chrono::seconds(1);  // from a probe to the suspicion
  double suspicion_multiplier = 4;                   // window = multiplier x max(1, log10 n) x probe_interval
  Duration gossip_interval = std::chrono::milliseconds(50);
  Duration retry_min = std::chrono::seconds(1);   // failed members are tried again for ever, this often ...
  Duration retry_max = std::chrono::seconds(30);  // ... down to this often, with jitter
  std::size_t news_max = 64;                      // members told in one message
  std::size_t members_max = 65536;                // remembered at all
};

class Membership {
 public:
  Membership(wire::Member self, MembershipOptions options, Random random);

  const wire::Member& self() const { return self_; }
  void set_phase(wire::Phase phase);
  void set_progress(std::uint64_t steps, std::uint64_t samples);

  // Everyone ever heard of but oneself, the dead and departed included.
  const std::map<PeerId, wire::Member>& others() const { return others_; }
  const wire::Member* find(PeerId id) const;
  static bool is_live(const wire::Member& m) { return m.liveness <= wire::Liveness::suspect; }

  std::uint64_t swarm_samples() const;
  // Changes whenever the set of live members, or a member's phase, does.
  std::uint64_t version() const { return version_; }

  // From now on probes and gossips.
  void start(Instant now);

  // Each of these appends what should be done to `out`.
  void heard(Instant now, PeerId from, std::vector<Action>& out);  // any verified message from `from`
  void on_ping(Instant now, PeerId from, const Address& address, const wire::Ping& ping,
               std::vector<Action>& out);
  void on_gossip(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                 std::vector<Action>& out);
  void merge(Instant now, std::span<const wire::Member> news, std::vector<Action>& out);
  void unreachable(Instant now, const Address& address, std::vector<Action>& out);
  void tick(Instant now, std::vector<Action>& out);
  Instant next_deadline() const;

  // What to tell `to`: itself, the receiver, and as many others as fit, drawn at random.
  std::vector<wire::Member> news(PeerId to);
  // Tells what it knows to live members now, rather than at the next turn: all of them, or kUrgentFanout
  // drawn at random.
  static constexpr std::size_t kUrgentFanout = 16;
  void spread(std::vector<Action>& out);
  // Says goodbye to every live member.
  void say_goodbye(std::vector<Action>& out) const;

 private:
  struct Probe {
    PeerId target;
    Instant deadline;
  };
  void merge_one(Instant now, const wire::Member& news, std::vector<Action>& out);
  void set_liveness(Instant now, wire::Member& member, wire::Liveness liveness, std::vector<Action>& out);
  void probe_next(Instant now, std::vector<Action>& out);
  void send_ping(const wire::Member& member, std::vector<Action>& out);
  void send_gossip(std::vector<Action>& out);
  void retry_failed(Instant now, std::vector<Action>& out);
  Duration suspicion_window() const;
  std::vector<PeerId> live_others() const;

  wire::Member self_;
  MembershipOptions options_;
  Random random_;
  std::map<PeerId, wire::Member> others_;
  std::map<PeerId, Instant> suspected_since_;
  std::uint64_t others_samples_ = 0;
  std::size_t live_count_ = 0;  // of others
  std::uint64_t version_ = 0;

  std::uint64_t ping_sequence_ = 0;
  std::vector<PeerId> probe_order_;  // the rest of this round, taken from the back
  std::optional<Probe> probe_;
  Duration retry_delay_;
  Instant next_probe_ = kNever, next_gossip_ = kNever, next_retry_ = kNever;
};

}  // namespace starling::gossip
