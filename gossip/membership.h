// Who is in the swarm, and who is alive: SWIM (Das, Gupta, Motivala: "SWIM: Scalable weakly-consistent
// infection-style process group membership protocol", DSN 2002) with Lifeguard's extensions (Dadgar et al.,
// 2018) and anti-entropy. Membership holds the conversations; each part is a machine of its own over one
// LocalView:
//
//   Prober         detects failures: round-robin pings, helpers, round trips, this peer's own lag
//   MemberStates   which evidence changes a member's liveness; suspicion and refutation
//   Rumors         news attached to messages, each sent a bounded number of times
//   Views          compares digests with random members until all views agree
//   Circle         the few members to gossip with
//   Retries        pings failed members and known addresses forever
//
// Only direct evidence (a verified message from the member itself) shows that a member lives. A relayed Ack
// cancels the probe that it answers and nothing more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/circle.h"
#include "gossip/local_view.h"
#include "gossip/member_states.h"
#include "gossip/prober.h"
#include "gossip/retries.h"
#include "gossip/rumors.h"
#include "gossip/views.h"
#include "wire/messages.h"

namespace starling::gossip {

class Membership {
 public:
  static constexpr std::size_t kUrgentFanout = 16;   // receivers of urgent messages
  static constexpr std::uint8_t kPoisoningsMax = 3;  // then quarantine

  Membership(wire::Member self, MembershipOptions options, Random random);
  Membership(Membership&&) = delete;  // its parts refer to one another

  // This peer's own entry.
  const wire::Member& self() const { return view_.self; }
  void set_phase(wire::Phase phase);
  void set_progress(std::uint64_t steps, std::uint64_t samples);
  void set_device(const std::string& device) { view_.self.device = device; }  // sent with the next phase
  void set_vitals(const wire::Vitals& vitals);
  const std::optional<wire::Vitals>& vitals() const { return view_.vitals; }
  // The topology that this peer follows.
  void set_topology(const wire::Revision& revision) { view_.topology = revision; }

  // All other members, sorted by id, including the dead and those that left.
  const std::vector<Record>& others() const { return view_.members.records(); }
  const Record* find(PeerId id) const { return view_.members.find(id); }
  std::size_t live_others() const { return view_.members.live(); }
  // Changes with the set of live members and with every member's phase.
  std::uint64_t version() const;
  std::vector<std::uint64_t> digest() const { return view_.digest(); }
  // Entries in internal queues, which other peers can fill: at most two for every member, and a thousand.
  std::size_t queued() const;

  // Samples that the whole swarm consumed, as far as known.
  std::uint64_t swarm_samples() const;
  std::uint64_t retired_samples(std::span<const wire::Member> except) const {
    return view_.members.retired_samples(except);
  }
  // Samples that no live member remembers, when this peer begins the run again.
  void add_samples(std::uint64_t samples) { view_.members.add_samples(samples); }
  // A known member consumed at least this number of samples.
  void add_progress(Instant now, const wire::Progress& progress);

  // Begins to probe and to gossip.
  void start(Instant now);
  // A member of this swarm may listen at this address: it is pinged forever, until such a member is known.
  void add_contact(const Address& address) { retries_.add_contact(address); }
  // This peer woke `late` after its deadline: the others get that much more time to answer.
  void slept(Duration late);
  void tick(Instant now, std::vector<Action>& out);
  Instant next_deadline() const;

  // Messages. on_... merges a message's members first and then calls heard() for its sender.
  void heard(Instant now, PeerId from, const Address& address, std::vector<Action>& out);
  void on_ping(Instant now, PeerId from, const Address& address, const wire::Ping& ping,
               std::vector<Action>& out);
  void on_ping_request(Instant now, PeerId from, const Address& address, const wire::PingRequest& request,
                       std::vector<Action>& out);
  void on_ack(Instant now, PeerId from, const Address& address, const wire::Ack& ack,
              std::vector<Action>& out);
  void on_gossip(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip,
                 std::vector<Action>& out);
  void on_digest(Instant now, PeerId from, const Address& address, const wire::Digest& digest,
                 std::vector<Action>& out);
  void on_view(Instant now, PeerId from, const Address& address, const wire::View& view,
               std::vector<Action>& out);
  void on_leave(Instant now, PeerId from, const wire::Leave& leave, std::vector<Action>& out);
  void merge(Instant now, PeerId teller, std::span<const wire::Member> news, std::vector<Action>& out) {
    states_.merge(now, teller, news, out);
  }
  void unreachable(Instant now, const Address& address, std::vector<Action>& out) {
    states_.unreachable(now, address, out);
  }

  // Members for a joiner; the joiner passes them, with the sender's retired_samples(), to welcomed().
  std::vector<wire::Member> introduction(PeerId joiner) { return views_.introduction(joiner); }
  void welcomed(Instant now, PeerId by, std::span<const wire::Member> members, std::uint64_t retired_samples,
                std::vector<Action>& out);
  // Probes this member now.
  void doubt(Instant now, PeerId id, std::vector<Action>& out);
  // Compares views with the peer at this address now.
  void sync_with(const Address& address, std::vector<Action>& out) { views_.sync_with(address, out); }
  // Sends this message to kUrgentFanout live members.
  void tell_some(const wire::Message& message, std::vector<Action>& out);
  // Sends all known progress to kUrgentFanout live members now.
  void spread(Instant now, std::vector<Action>& out);
  // Sends a Leave to kUrgentFanout live members, which spread it.
  void say_goodbye(std::vector<Action>& out);

  // How exchanges with a member go. Failed ones keep this peer from it for a moment, longer each time; values
  // that a replica must not take lead to quarantine.
  void exchange_completed(PeerId id);
  void exchange_aborted(Instant now, PeerId id);
  void poisoned_by(Instant now, PeerId id, std::vector<Action>& out);

 private:
  void send_gossip(Instant now, std::vector<Action>& out);

  LocalView view_;
  Rumors rumors_{view_};
  Circle circle_{view_};
  Retries retries_{view_};
  Views views_{view_};
  Prober prober_{view_, rumors_};
  MemberStates states_{view_, rumors_, circle_, retries_, views_};
  Instant next_gossip_ = kNever;
  Instant next_burial_ = kNever;  // of tombstones past their life
};

}  // namespace starling::gossip
