// Who is in the swarm, and who is alive: SWIM (Das, Gupta, Motivala: "SWIM: Scalable weakly-consistent
// infection-style process group membership protocol", DSN 2002) with Lifeguard's extensions (Dadgar,
// Phillips, Currey: "Lifeguard: Local health awareness for more accurate failure detection", 2018) and
// anti-entropy. Membership holds the conversations; each part is a machine of its own over one LocalView:
//
//   Prober         detects failures: round-robin pings, helpers, round trips, this peer's own lag
//   MemberStates   which evidence changes a member's liveness; suspicion and refutation
//   Rumors         news attached to messages, each sent a bounded number of times
//   Views          compares digests with random members until all views agree
//   Retries        pings failed members and known addresses forever
//   Reach          whether this peer can be dialed, and what others do to reach it if not
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
#include "gossip/members/credit.h"
#include "gossip/members/introductions.h"
#include "gossip/members/members.h"
#include "gossip/members/prober.h"
#include "gossip/members/reach.h"
#include "gossip/members/rumors.h"
#include "wire/messages.h"

namespace starling::gossip {

// How long a suspect with one accuser has to refute, in a swarm with this number of live members including
// this peer.
Duration longest_suspicion(const MembershipOptions& options, std::size_t live);
// The same for a suspect with this number of independent accusers: it shrinks with each of them (Lifeguard).
Duration suspicion_window(const MembershipOptions& options, std::size_t live, std::size_t accusers);

// The liveness of every member, and the evidence that changes it (SWIM, section 4.2, with incarnations).
//
//   alive -> suspect    a probe was not answered, an address is unreachable, or another peer says so
//   suspect -> failed   it did not answer this peer either, and the suspicion window has passed, or another
//                       peer says so after half of it
//   suspect -> alive    its own message, or the window has passed and it did not fail to answer this peer
//   any -> alive        the member has raised its incarnation
//   any -> left         the member itself said goodbye
//
// What others say raises suspicion and never decides. The last two transitions carry the member's signature;
// address, name and phase are accepted only with it. No rumor takes a member from alive to failed in one
// step: it becomes suspect, this peer pings it, and it gets time to refute. When a partition heals, the
// failures that one side recorded therefore do not spread to the other.
class MemberStates {
 public:
  MemberStates(LocalView& view, Rumors& rumors, Retries& retries, const Views& views, Prober& prober)
      : view_(view), rumors_(rumors), retries_(retries), views_(views), prober_(prober) {}

  // News from this peer.
  void merge(Instant now, PeerId teller, std::span<const wire::Member> news, Actions& out);
  // A member that was dead before this peer met it. Null if it is known or the table is full.
  Record* add_dead(Instant now, PeerId teller, const wire::Member& dead, wire::Liveness liveness);
  // The Welcome names it: its samples count at once, and if it does not answer, it has failed.
  void keep(Instant now, PeerId welcomer, const wire::Member& named, Actions& out);
  // Of members that the Welcome names and that have not answered yet.
  std::uint64_t expected_samples() const { return introductions_.samples(); }
  // A known member consumed at least this number of samples, as `teller` says.
  void progressed(Instant now, PeerId teller, Record& record, std::uint64_t samples, Actions& out);
  // Samples and vitals of known members, as a member says.
  void take_figures(Instant now, PeerId from, const wire::Gossip& gossip, Actions& out);
  // Those of members that lead (Credit::lead).
  std::uint64_t doubtful_samples(Instant now);
  // This peer consumed this number of samples.
  void progressed(Instant now, std::uint64_t samples) { credit_.own(now, samples); }

  // A message from the member itself.
  void heard(Instant now, Record& record, Actions& out);
  // Sends there fail.
  void unreachable(Instant now, const Endpoint& to, Actions& out);
  // A member says that another live one advertises the address of this peer.
  void address_taken(Instant now, PeerId teller, Actions& out);
  // The answer to a PingRequest: a member that cannot be dialed becomes known by it.
  void answered_for(Instant now, const wire::Ack& ack, Actions& out);
  // The accuser's probe was not answered. Returns false if that changes nothing.
  bool accuse(Instant now, Record& record, PeerId accuser, Actions& out);

  // Suspects whose window has passed have failed.
  void tick(Instant now, Actions& out);
  // This peer woke `late` after its deadline: suspects get that much more time.
  void slept(Duration late);
  Instant next_deadline() const;
  // Entries in internal queues.
  std::size_t queued() const { return suspects_.size() + introductions_.size(); }

 private:
  bool merge_one(Instant now, PeerId teller, const wire::Member& news, Actions& out);
  bool merge_statement(Instant now, Record& record, PeerId teller, const wire::Member& news, Actions& out);
  bool merge_claim(Instant now, Record& record, PeerId teller, const wire::Member& news, Actions& out);
  bool meet(Instant now, PeerId teller, const wire::Member& news, Actions& out);
  bool add_live(Instant now, const wire::Member& news, Actions& out);
  Record& insert(Instant now, const wire::Member& member, wire::Liveness liveness);
  void hear_of_self(Instant now, PeerId teller, const wire::Member& news, Actions& out);
  void refute(Instant now, const wire::Member& news, Actions& out);
  void correct(PeerId teller, std::span<const wire::Member> news, Actions& out);
  bool accept_failure(Instant now, Record& record, PeerId teller, Actions& out);
  void set_liveness(Instant now, Record& record, wire::Liveness liveness, Actions& out);
  void warn(Instant now, Record& record, Actions& out, wire::Liveness claimed = wire::Liveness::alive);
  void supersede(Instant now, const Record& by, Actions& out);
  void report_conflict(Instant now, Record& record, Actions& out);
  void report_lead(Instant now, Record& record, Actions& out);
  void settle_suspicion(Instant now, Record& suspect, Actions& out);
  Instant window_end(const Record& suspect) const;
  bool has_not_answered(const Record& record) const {
    const bool is_suspect = record.member.liveness == wire::Liveness::suspect;
    return record.unanswered || (is_suspect && !view_.options.guards.own_probe);
  }

  LocalView& view_;
  Rumors& rumors_;
  Retries& retries_;
  const Views& views_;
  Prober& prober_;
  Introductions introductions_{view_};
  Credit credit_{view_};
  std::vector<PeerId> suspects_;
  Instant refute_after_{Duration::min()};  // refutations are spaced
  Duration refute_pause_{0};
  Instant conflict_noticed_{Duration::min()};
};

class Membership {
 public:
  static constexpr std::size_t kUrgentFanout = 16;   // receivers of urgent messages
  static constexpr std::uint8_t kPoisoningsMax = 3;  // then quarantine

  // REQUIRES: `identity` outlives it and has the id and key of `self`.
  Membership(const Identity& identity, wire::Member self, MembershipOptions options, Random random);
  Membership(Membership&&) = delete;  // its parts refer to one another

  // This peer's own entry.
  const wire::Member& self() const { return view_.self; }
  void set_phase(wire::Phase phase);
  // Since the run began, including earlier lives under the same id.
  void set_progress(Instant now, std::uint64_t steps, std::uint64_t samples) {
    view_.self.steps = std::max(view_.self.steps, steps);
    view_.self.samples = std::max(view_.self.samples, samples);
    states_.progressed(now, view_.self.samples);
  }
  // The device is sent with the next phase. `exchanges`: LocalView.
  void prepared(const std::string& device, bool exchanges) {
    view_.change_self([&](wire::Member& self) { self.device = device; });
    view_.exchanges = exchanges;
  }
  void set_vitals(const wire::Vitals& vitals);
  // The topology that this peer follows.
  void set_topology(const wire::Revision& revision) { view_.topology = revision; }

  Reach& reach() { return reach_; }
  const LocalView& view() const { return view_; }

  // All other members, sorted by id, including the dead and those that left.
  const std::vector<Record>& others() const { return view_.members.records(); }
  const Record* find(PeerId id) const { return view_.members.find(id); }
  // Changes with the set of live members, and with every member's phase and reach.
  std::uint64_t version() const {
    // All of them only grow.
    return view_.members.version() + static_cast<std::uint64_t>(view_.self.phase) + view_.self.incarnation;
  }
  // Entries in internal queues, which other peers can fill: at most two for every member, and 1,500.
  std::size_t queued() const {
    return rumors_.members_queued() + rumors_.progress_queued() + prober_.queued() + view_.circle.size() +
           states_.queued() + reach_.queued();
  }

  // Samples that the whole swarm consumed, as far as known.
  std::uint64_t swarm_samples() const {
    const std::uint64_t others = add_saturated(view_.members.samples(), states_.expected_samples());
    return add_saturated(view_.self.samples, others);
  }
  // What counts of members that brought more than half of it since they came, much faster than others.
  std::uint64_t doubtful_samples(Instant now) { return states_.doubtful_samples(now); }
  // Samples that no live member remembers, when this peer begins the run again.
  void add_samples(std::uint64_t samples) { view_.members.add_samples(samples); }

  // Begins to probe and to gossip.
  void start(Instant now);
  // A member of this swarm may listen at this address: it is pinged forever, until such a member is known.
  void add_contact(const Address& address) { retries_.add_contact(address); }
  // This peer woke `late` after its deadline: the others get that much more time to answer.
  void slept(Duration late) {
    prober_.slept(late);
    states_.slept(late);
    reach_.slept(late);
  }
  void tick(Instant now, Actions& out);
  Instant next_deadline() const {
    return std::min({prober_.next_deadline(), next_gossip_, views_.next_deadline(), retries_.next_deadline(),
                     next_burial_, states_.next_deadline(), reach_.next_deadline()});
  }

  // Messages. on() merges a message's members first and then calls heard() for its sender.
  void heard(Instant now, PeerId from, const Address& address, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::Ping& ping, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::PingRequest& request, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::Ack& ack, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::Gossip& gossip, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::Digest& digest, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::View& view, Actions& out);
  void on(Instant now, PeerId from, const Address& address, const wire::Leave& leave, Actions& out);
  void merge(Instant now, PeerId teller, std::span<const wire::Member> news, Actions& out) {
    states_.merge(now, teller, news, out);
  }
  void unreachable(Instant now, const Endpoint& to, Actions& out) { states_.unreachable(now, to, out); }

  // Members for a joiner; the joiner passes them, with the sender's retired_samples(), to welcomed().
  std::vector<wire::Member> introduction(PeerId joiner) { return views_.introduction(joiner); }
  // A member says that another live one advertises the address of this peer.
  void address_taken(Instant now, PeerId teller, Actions& out) { states_.address_taken(now, teller, out); }
  void welcomed(Instant now, PeerId by, std::span<const wire::Member> members, std::uint64_t retired_samples,
                Actions& out, Duration elapsed = {});  // since the run began
  // These peers, which may include this one, are here from the beginning, each by its own word. All of them
  // know that, so it is no news.
  void assembled(Instant now, std::span<const wire::Member> members, Actions& out);
  // Probes this member now.
  void doubt(Instant now, PeerId id, Actions& out) {
    Record* const record = view_.members.find(id);
    if (record != nullptr && record->is_live()) prober_.probe(now, *record, Prober::Helpers::asked, out);
  }
  // Compares views with the peer at this address now.
  void sync_with(const Endpoint& to, Actions& out) { views_.sync_with(to, out); }
  // Sends this message to kUrgentFanout live members.
  void tell_some(const wire::Message& message, Actions& out) {
    for (const PeerId id : view_.draw_live(kUrgentFanout)) view_.tell(find(id)->member, message, out);
  }
  // Sends all known progress to kUrgentFanout live members now.
  void spread(Instant now, Actions& out);
  // Asks these members for their samples, and tells them what is new, with this peer's own entry.
  void ask_for_samples(Instant now, std::span<const PeerId> ids, Actions& out);
  // Sends a Leave to kUrgentFanout live members, which spread it.
  void say_goodbye(Actions& out) {
    view_.change_self([](wire::Member& self) { self.liveness = wire::Liveness::left; });
    tell_some(wire::Leave{view_.self}, out);
  }

  // How exchanges with a member go. Failed ones keep this peer from it for a moment, longer each time; values
  // that a replica must not take lead to quarantine.
  void exchange_completed(PeerId id, bool is_own) {  // else the member began it
    Record* const record = view_.members.find(id);
    if (record == nullptr) return;
    record->standing.works = true;
    ++record->standing.exchanges;
    if (is_own) record->failed_exchanges = 0;
  }
  void exchange_aborted(Instant now, PeerId id);
  void poisoned_by(Instant now, PeerId id, Actions& out);

 private:
  void send_gossip(Instant now, Actions& out);

  LocalView view_;
  Rumors rumors_{view_};
  Retries retries_{view_};
  Views views_{view_};
  Prober prober_{view_, rumors_};
  MemberStates states_{view_, rumors_, retries_, views_, prober_};
  Reach reach_{view_, rumors_, prober_};
  Instant next_gossip_ = kNever;
  Instant next_burial_ = kNever;  // of tombstones past their life
};

}  // namespace starling::gossip
