// Who is in the swarm, and who is still alive: a small state machine of the core. SWIM (Das et al., «SWIM:
// Scalable weakly-consistent infection-style process group membership protocol», DSN 2002) with what
// Lifeguard adds (Dadgar et al., 2018): round-robin probes, indirect ones through helpers, suspicion before
// failure, shortened by independent accusers, incarnations that only their owner may raise, news piggybacked
// on every message and told a bounded number of times. To that come:
//
// - anti-entropy: now and then a digest goes to a random member, and where the views differ they are
// exchanged;
// - every failed member, and every address where one may be, is tried again for ever, so a partition of any
//   length heals, and islands that started apart find each other;
// - nobody goes from alive to failed in one step: hearsay makes a suspect, and a suspect has time to refute.
// So
//   when a partition heals, the dead of one side do not take the living of the other with them;
// - time that this peer slept through (stopped, starved) does not count against the others, and how long it
//   waits for an answer follows from measured round trips and its own lag.
//
// Only direct evidence (a verified message from the member itself) is a sign of life; a relayed Ack cancels
// the probe it answers and nothing more.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/members.h"
#include "wire/messages.h"

namespace starling::gossip {

struct MembershipOptions {
  Duration probe_interval = std::chrono::seconds(1);  // a member is probed every so often
  std::size_t helpers = 3;                            // asked to probe whom one hears nothing from
  // A suspect has multiplier x max(1, log10 n) x probe_interval to refute, and with three further accusers
  // half of that, at least multiplier x probe_interval.
  double suspicion_multiplier = 4;
  // Between two Gossips, and longer by so much for every member told of: what a peer sends is bounded,
  // however large the swarm.
  Duration gossip_interval = std::chrono::milliseconds(100);
  Duration gossip_interval_per_entry = std::chrono::milliseconds(5);
  Duration sync_min = std::chrono::milliseconds(500);  // between two Digests, while views differ ...
  Duration sync_max = std::chrono::seconds(10);        // ... doubled while they agree
  Duration retry_min = std::chrono::seconds(1);        // between tries of the failed, after a failure ...
  Duration retry_max = std::chrono::seconds(30);       // ... doubled, with jitter
  Duration tombstone_life = std::chrono::hours(2);     // who left or was superseded is remembered so long
  Duration quarantine = std::chrono::seconds(60);
  std::size_t members_max = 65536;  // remembered at all; the longest dead make room
};

class Membership {
 public:
  static constexpr std::size_t kRumorsMax = 12;     // members told in one message
  static constexpr std::size_t kProgressMax = 20;   // of whom progress is told in one message
  static constexpr std::size_t kWelcomeMax = 64;    // live members told to a joiner
  static constexpr std::size_t kMournedMax = 32;    // dead ones, the latest
  static constexpr std::size_t kCircle = 8;         // members one gossips with at a time
  static constexpr std::size_t kUrgentFanout = 16;  // members told at once where it matters
  static constexpr std::size_t kContactsMax = 1024;
  static constexpr std::uint8_t kPoisoningsMax = 3;  // then quarantine

  Membership(wire::Member self, MembershipOptions options, Random random);

  const wire::Member& self() const { return self_; }
  void set_phase(wire::Phase phase);
  void set_progress(std::uint64_t steps, std::uint64_t samples);
  void set_device(const std::string& device) { self_.device = device; }  // others learn it with the next phase
  void set_vitals(const wire::Vitals& vitals);
  const std::optional<wire::Vitals>& vitals() const { return vitals_; }  // its own
  // Of whoever begins a run anew: so many were consumed before, by lives that nobody else remembers.
  void bring_samples(std::uint64_t samples);
  // Somebody who is known consumed at least so many; others hear of what is news.
  void took_part(Instant now, const wire::Progress& progress);
  // A joiner's first sight of the swarm: what introduction() and retired_samples() of a member say.
  void welcomed(Instant now, PeerId by, std::span<const wire::Member> members, std::uint64_t retired_samples,
                std::vector<Action>& out);

  // Everyone it knows but oneself, in the order of ids, the dead and departed included.
  const std::vector<Record>& others() const { return members_.records(); }
  const Record* find(PeerId id) const { return members_.find(id); }
  std::size_t live_others() const { return live_count_; }
  std::uint64_t swarm_samples() const;
  // Of the dead, departed and forgotten, without those who are `told`.
  std::uint64_t retired_samples(std::span<const wire::Member> told) const;
  // Changes whenever the set of live members, or a member's phase, does.
  std::uint64_t version() const { return version_; }
  // Equal for equal views of who lives, in which incarnation and phase, oneself included.
  std::vector<std::uint64_t> digest() const;
  // How much waits in here to be told, answered or relayed; bounded whatever others do: by two for every
  // member, and a thousand.
  std::size_t queued() const;
  Duration lag() const { return lag_; }  // smoothed: how late this peer is woken

  // From now on probes and gossips.
  void start(Instant now);
  // A member of this swarm may listen there: it is tried for ever, until one is known that does.
  void add_contact(const Address& address);
  // This peer was woken `late` after its deadline: what others were to answer by now gets as much longer.
  void slept(Duration late);

  // Each of these appends what should be done to `out`. Of a message its members are merged first, then its
  // sender is `heard`; the on_... do both.
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
  void merge(Instant now, PeerId teller, std::span<const wire::Member> news, std::vector<Action>& out);
  void unreachable(Instant now, const Address& address, std::vector<Action>& out);
  void tick(Instant now, std::vector<Action>& out);
  Instant next_deadline() const;

  // Asks whether this member lives, out of turn.
  void doubt(Instant now, PeerId id, std::vector<Action>& out);
  // Says this to kUrgentFanout live members.
  void tell_some(const wire::Message& message, std::vector<Action>& out);
  // What Digests and Views tell of the topology that this peer follows.
  void set_topology(const wire::Revision& revision) { topology_ = revision; }
  // Compares views with this member now.
  void sync_with(const Address& address, std::vector<Action>& out);
  // Some members, for a joiner: of the dead too, so that one that comes back after all is not counted twice.
  std::vector<wire::Member> introduction(PeerId to);
  // Tells what it knows to live members now, rather than at the next turn: to kUrgentFanout of them.
  void spread(Instant now, std::vector<Action>& out);
  // Says goodbye to kUrgentFanout live members, who tell the rest.
  void say_goodbye(std::vector<Action>& out);

  // How exchanges with a member go. One that came to nothing keeps others away from it for a moment, longer
  // each time; values that may not touch a replica lead to quarantine.
  void exchange_completed(PeerId id);
  void exchange_aborted(Instant now, PeerId id);
  void poisoned_by(Instant now, PeerId id, std::vector<Action>& out);
  // Whether an exchange with it may begin now.
  static bool is_partner(Instant now, const Record& record) {
    return record.member.liveness == wire::Liveness::alive && record.quarantined_until <= now &&
           record.avoided_until <= now;
  }

 private:
  struct Probe {
    PeerId target;
    std::uint64_t sequence;
    Instant sent;
    Instant ask_helpers;
    Instant verdict;
    bool asked = false;
    bool over = false;  // answered or judged; kept a while to measure a late answer
  };
  struct Relay {  // a Ping sent for another
    std::uint64_t sequence;
    PeerId target;
    Address requester;
    std::uint64_t requested;  // the sequence it knows
  };

  bool merge_one(Instant now, PeerId teller, const wire::Member& news, std::vector<Action>& out);
  void correct(PeerId teller, std::span<const wire::Member> news, std::vector<Action>& out);
  void refute(const wire::Member& news, std::vector<Action>& out);
  void mourn(Instant now, const wire::Member& dead);
  bool meet(Instant now, const wire::Member& news, std::vector<Action>& out);
  bool accuse(Instant now, Record& record, PeerId accuser, std::vector<Action>& out);
  bool believe_failed(Instant now, Record& record, PeerId teller, std::vector<Action>& out);
  void set_liveness(Instant now, Record& record, wire::Liveness liveness, std::vector<Action>& out);
  void warn(Instant now, Record& record, std::vector<Action>& out);
  void supersede(Instant now, PeerId by, const Address& address, std::vector<Action>& out);
  void start_rumor(Record& record);
  void take_progress(Instant now, Record& record, std::uint64_t samples);
  wire::Gossip gossip_of(std::vector<wire::Member> members, bool reply_wanted, std::vector<wire::Progress> progress) const;
  bool make_room();

  std::vector<wire::Member> rumors(Instant now, PeerId to, bool with_self);
  std::vector<wire::Progress> progress();
  std::vector<wire::Member> view_of(std::uint64_t buckets) const;

  void begin_probe(Instant now, Record& record, std::vector<Action>& out);
  void probe_next(Instant now, std::vector<Action>& out);
  void advance_probes(Instant now, std::vector<Action>& out);
  void judge_suspects(Instant now, std::vector<Action>& out);
  void send_gossip(Instant now, std::vector<Action>& out);
  void retry_lost(std::vector<Action>& out);
  void bury(Instant now);
  Duration answer_limit(const Record& record) const;
  Duration longest_suspicion() const;
  Duration suspicion_window(const Record& record) const;
  std::uint8_t tellings() const;
  Record* random_live();
  std::vector<PeerId> some_live(std::size_t most);
  void refresh_circle();

  wire::Member self_;
  MembershipOptions options_;
  Random random_;
  Members members_;
  std::size_t live_count_ = 0;        // of others
  std::optional<wire::Vitals> vitals_;
  std::uint64_t others_samples_ = 0;  // of everyone who ever took part, the forgotten included
  std::uint64_t version_ = 0;

  std::uint64_t sequence_ = 0;
  std::vector<PeerId> probe_order_;  // the rest of this round, taken from the back
  std::vector<Probe> probes_;
  std::deque<Relay> relays_;
  std::vector<PeerId> suspects_;
  Duration lag_{0};

  std::vector<PeerId> circle_;  // the longest in it first
  std::deque<PeerId> rumors_;   // the least told first
  std::deque<PeerId> recent_;   // whose progress was learned last comes first
  std::uint8_t self_tellings_ = 0;

  wire::Revision topology_;
  std::vector<Address> contacts_;
  Duration retry_delay_, sync_delay_;
  Instant next_probe_ = kNever, next_gossip_ = kNever, next_sync_ = kNever, next_retry_ = kNever,
          next_burial_ = kNever;
};

}  // namespace starling::gossip
