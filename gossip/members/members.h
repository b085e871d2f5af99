// The table of all members that this peer remembers, except itself, sorted by id. It keeps three things up to
// date with every change: the number of live members, the samples that all members consumed, and a digest of
// the live ones (a hash for each of 64 buckets of ids). Two peers compare digests, 512 bytes, to find out
// whether and where their views differ (anti-entropy; Demers et al., "Epidemic algorithms for replicated
// database maintenance", PODC 1987).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/identity.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/members/statements.h"
#include "wire/messages.h"

namespace starling::gossip {

// Claims of peers are summed without overflow.
constexpr std::uint64_t add_saturated(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

inline std::string described(const wire::Member& member) {
  return member.name + " at " + to_string(member.address);
}

// A member at its own addresses.
inline Endpoint endpoint_of(const wire::Member& member) {
  return {member.id, member.address, Way::dial, {}, member.also};
}

// How fast a count grows, from values at least a second apart.
class SpeedMeter {
 public:
  void add(Instant now, std::uint64_t count) {
    constexpr Duration kLeast = std::chrono::seconds(1);
    if (any_ && now - since_ < kLeast) return;
    if (any_) {
      const double grown = count > count_ ? static_cast<double>(count - count_) : 0;
      const double speed = grown / to_seconds(now - since_);
      per_second_ = per_second_ == 0 ? speed : (3 * per_second_ + speed) / 4;
    }
    any_ = true;
    since_ = now;
    count_ = std::max(count_, count);
  }
  bool any() const { return any_; }
  // The latest value that was used, and when it was added.
  std::uint64_t count() const { return count_; }
  Instant since() const { return since_; }
  double per_second() const { return per_second_; }  // smoothed

 private:
  bool any_ = false;
  Instant since_;
  std::uint64_t count_ = 0;
  double per_second_ = 0;
};

// How often something may happen: `most` times at once, then `most` times a second.
class Budget {
 public:
  explicit Budget(double most) : most_(most), left_(most) {}
  // Whether it may happen now. If so, it is counted.
  bool take(Instant now) {
    left_ = std::min(most_, left_ + most_ * to_seconds(now - since_));
    since_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  void spend(double more) { left_ -= more; }

 private:
  double most_, left_;
  Instant since_{};
};

// Smoothed (RFC 6298, section 2).
struct RoundTrip {
  Duration mean{0}, deviation{0};  // 0: unknown
};

// What Credit knows of a member.
struct Standing {
  SpeedMeter speed{};               // of its samples, by its own account
  bool incredible = false;          // it claimed more samples than possible
  bool works = false;               // an exchange with it was completed
  bool welcomed = false;            // the Welcome told of its samples
  std::uint32_t exchanges = 0;      // that were completed with it
  Instant met{};                    // when it got its record
  std::uint64_t earlier = 0;        // samples before that
  std::uint64_t others_worked = 0;  // Credit's count at that time
  std::uint64_t all_before = 0;     // everyone's samples at that time
  std::uint64_t claimed = 0;        // by itself; what does not count of it waits
  double allowed = 4096;            // samples more that count by its own word (Credit), at `allowed_at`
  Instant allowed_at{};
  Instant noticed_at{Duration::min()};  // that it leads
  PeerId voucher{};                     // who said the most about its samples,
  std::uint64_t vouched = 0;            // and how many
};

// A member that has answered this peer, or a dead one, and what only this peer knows about it.
struct Record {
  wire::Member member;
  Instant changed;                       // its last change of liveness
  std::optional<Instant> last_heard;     // the last verified message from the member itself
  Instant quarantined_until;             // no exchange before: its parameters were rejected
  Instant avoided_until;                 // no exchange before: recent ones failed
  Instant samples_at;                    // the last known growth of its samples
  Duration samples_every{0};             // smoothed interval between two growths; 0: unknown
  RoundTrip round_trip{};                // of probes
  std::optional<wire::Vitals> vitals{};  // the latest that the member published

  // Independent peers whose probes a suspect has not answered.
  static constexpr std::size_t kAccusersMax = 4;
  std::array<PeerId, kAccusersMax> accusers{};
  std::uint8_t accuser_count = 0;

  Budget relays{8};           // what this peer does for it: pings of other members, calls, dials
  Budget verifications{128};  // of signatures that it passes on

  std::uint8_t rumor_tellings = 0;     // remaining
  std::uint8_t progress_tellings = 0;  // remaining
  std::uint8_t failed_exchanges = 0;   // in a row
  std::uint8_t poisonings = 0;         // since the last quarantine
  bool rumor_queued = false;
  std::optional<Instant> met{};  // its first message to this peer
  bool superseded = false;       // another peer with its address was heard later: not retried
  bool observes = false;         // one of MembershipOptions::observers
  bool named = false;            // others named it, and it answered; or the driver assembled it
  bool unanswered = false;       // a suspect: it did not answer this peer either
  Standing standing{};
  Instant warned_at{Duration::min()};  // when it was last sent the rumors about itself

  bool is_live() const { return member.liveness <= wire::Liveness::suspect; }
  // Whether it has done more than to introduce itself.
  bool is_proven() const { return named || standing.works || round_trip.mean.count() > 0; }
  // Live, and not only others say so: a suspect that only others accuse is treated as alive.
  bool responds() const { return is_live() && !unanswered; }
  // Whether an exchange with it may begin.
  bool may_exchange(Instant now) const {
    return responds() && !observes && quarantined_until <= now && avoided_until <= now;
  }
  // false if the accuser is known or kAccusersMax are
  bool accuse(PeerId accuser) {
    const auto known = std::span(accusers).first(accuser_count);
    if (accuser_count == kAccusersMax || std::ranges::find(known, accuser) != known.end()) return false;
    accusers[accuser_count++] = accuser;
    return true;
  }
};

class Members {
 public:
  // Sorted by id. References are valid until the next insert or erase.
  const std::vector<Record>& records() const { return records_; }
  std::size_t size() const { return records_.size(); }
  Record* find(PeerId id);
  const Record* find(PeerId id) const;
  // The index of the first record whose id is not less than `id`, or size().
  std::size_t lower_bound(PeerId id) const {
    // Without branches on random ids, which nothing predicts.
    std::size_t first = 0, length = ids_.size();
    while (length > 1) {
      const std::size_t half = length / 2;
      first += half * static_cast<std::size_t>(ids_[first + half - 1] < id);
      length -= half;
    }
    return first + static_cast<std::size_t>(length == 1 && ids_[first] < id);
  }
  Record& at(std::size_t index) { return records_[index]; }
  // f(record) for every record with this address, sorted by id. f may change() it.
  template <class F>
  void for_each_at(const Address& address, F f) {
    if (!address) return;
    const std::uint32_t hash = hash_of(address);
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (homes_[i] == hash && records_[i].member.address == address) f(records_[i]);
  }

  // REQUIRES: no record has this id.
  Record& insert(Record record);
  // Their samples remain counted.
  void erase(PeerId id);
  // Erases the record that has been dead for longest. Returns false if all are live.
  bool erase_longest_dead();
  // Erases members that left or were superseded at `until` or before. Failed members stay: they may come
  // back.
  void erase_gone(Instant until);

  // Changes a record's member, and the digest and counts with it.
  template <class Change>
  void change(Record& record, Change change) {
    std::uint64_t& bucket = digest_[bucket_of(record.member.id)];
    const bool was_live = record.is_live();
    const wire::Phase phase = record.member.phase;
    const auto reach = std::pair(hash_of_reach(record.member), phase);
    bucket -= hash_of(record.member);
    change(record);
    bucket += hash_of(record.member);
    homes_[static_cast<std::size_t>(&record - records_.data())] = hash_of(record.member.address);
    if (was_live && !record.is_live()) --live_;
    if (!was_live && record.is_live()) ++live_;
    const bool is_same = reach == std::pair(hash_of_reach(record.member), record.member.phase);
    if (was_live != record.is_live() || (was_live && !is_same)) ++version_;
  }

  std::size_t live() const { return live_; }
  // Changes with the set of live members, and with the phase and the reach of each.
  std::uint64_t version() const { return version_; }

  // Samples that all members consumed, including the dead and the forgotten. Saturates.
  std::uint64_t samples() const { return samples_; }
  void add_samples(std::uint64_t samples) { samples_ = add_saturated(samples_, samples); }
  // REQUIRES: samples > record.member.samples.
  void set_samples(Instant now, Record& record, std::uint64_t samples);
  // Samples of members that are dead or forgotten, without those in `except`.
  std::uint64_t retired_samples(std::span<const wire::Member> except) const;

  const std::array<std::uint64_t, wire::kDigestBuckets>& digest() const { return digest_; }
  static std::size_t bucket_of(PeerId id) { return id.value % wire::kDigestBuckets; }  // ids are random
  // Covers what all peers should agree on: id, incarnation and phase of live members. Suspicion and progress
  // change all the time, and a late joiner need not know the dead (hash 0).
  static std::uint64_t hash_of(const wire::Member& member);

 private:
  // Of what decides who can exchange with whom: whether it can be dialed, through whom it is called, and
  // whether it relays.
  static std::uint64_t hash_of_reach(const wire::Member& member) {
    const std::array<std::uint64_t, 2> own{member.address ? 1U : 0U, member.relays > 0 ? 1U : 0U};
    return hash64(std::as_bytes(std::span(member.homes)), hash64(std::as_bytes(std::span(own))));
  }
  static std::uint32_t hash_of(const Address& address) {
    return static_cast<std::uint32_t>(hash64(address.host, address.port));
  }

  // Parallel to records_ and dense, for searches.
  std::vector<PeerId> ids_;
  std::vector<std::uint32_t> homes_;  // hashes of addresses
  std::vector<Record> records_;
  std::array<std::uint64_t, wire::kDigestBuckets> digest_{};
  std::size_t live_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t samples_ = 0;
};

// An interval that is doubled from `min` up to `max`, and varied each time.
struct Backoff {
  Duration min, max;

  Duration next(Duration interval) const { return std::min(2 * interval, max); }
};

// The interval, up to a quarter shorter or longer.
inline Duration varied(Random& random, Duration interval) {
  return from_seconds(to_seconds(interval) * random.uniform(0.75, 1.25));
}

// What keeps lies of members without effect. Tests switch a guard off to see that the hunt finds lies then.
struct Guards {
  bool signatures = true;     // what a member says about itself counts only with its signature
  bool samples = true;        // Credit
  bool introductions = true;  // hearsay makes no member
  bool own_probe = true;      // a member fails only if it did not answer this peer
  bool pauses = true;         // RoundWaits learns how long a round takes, and nobody waits longer
};

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
  Backoff sync{std::chrono::milliseconds(500),
               std::chrono::seconds(10)};                            // between Digests, while views agree
  Backoff retry{std::chrono::seconds(1), std::chrono::seconds(30)};  // of failed members, after a failure
  Duration tombstone_life = std::chrono::hours(2);  // members that left or were superseded are kept for this
  Duration quarantine = std::chrono::seconds(60);
  std::size_t members_max = 65536;  // in the table; the longest dead make room
  Guards guards{};
  // Peers that begin the run together, itself included; 0: not known. In a run that ends by samples this peer
  // leaves the others their part until they make steps (Allowance).
  std::uint32_t expected = 0;
  bool awaits_expected = false;     // it trains only when they are there, too (JointStart)
  std::vector<PeerId> observers{};  // sorted; this peer exchanges with none of them and copies from none
  struct ReachOptions {
    bool finds_address = false;   // this peer listens, and asks members at which addresses they can dial it
    std::vector<Address> also{};  // if it has a stated address: further ones; at most wire::kAlsoMax
    std::uint64_t relays = 0;     // bits per second that it relays for others; 0: it does not
  } reach{};
};

// A peer's local view of the swarm: its own entry, the table of the others, and the random stream that all
// parts of a Membership (Rumors, Prober, ...) draw from. The parts share one LocalView by reference. It
// stores, digests and samples, and never sends.
struct LocalView {
  static constexpr std::size_t kCircleSize = 8;

  MembershipOptions options;
  const Identity* identity;  // not null
  wire::Member self;         // signed
  Random random;
  Instant run_start{};
  std::optional<wire::Vitals> vitals{};  // this peer's own
  wire::Revision topology{};
  Members members{};
  std::uint64_t last_sequence = 0;  // of this peer's Pings
  // Whether this peer listens, states no address, does not know yet whether it can be dialed, and has met no
  // member that can be.
  bool finds_out_address = false;
  // Whether peers exchange parameters with one another, so that one without exchanges may do no work.
  bool exchanges = false;
  // The members to gossip with: a few random live ones at a time, oldest first. A small circle keeps the
  // number of open links small; slow replacement spreads news over the whole swarm.
  std::vector<PeerId> circle{};

  // Changes this peer's own entry and signs it.
  template <class Change>
  void change_self(Change change) {
    change(self);
    self.signature = identity->sign(statement_of(self));
  }
  // Whether the member has signed this, which `teller` passes on. Verifying takes time, so what a member
  // passes on is verified at a bounded rate; false signatures count sixteen times.
  bool is_authentic(Instant now, PeerId teller, const wire::Member& member) {
    constexpr double kFalse = 15;
    if (!options.guards.signatures) return true;
    Record* const by = members.find(teller);
    if (by != nullptr && !by->verifications.take(now)) return false;
    if (gossip::is_authentic(*identity, member)) return true;
    if (by != nullptr) by->verifications.spend(kFalse);
    return false;
  }
  // Whether the owner of the key has signed that it received this peer's request, of which this is the
  // answer.
  bool has_answered(const PublicKey& key, const wire::Ack& ack) const {
    return identity->verify(key, answer_statement(key, self.id, ack.sequence), ack.signature);
  }
  // ---- how this peer reaches a member (docs/PROTOCOL.md, "Reach") ----
  // Whether messages can be sent to it: of two peers one can be dialed. Before a peer has found out its own
  // address it uses the links that it has with members that are in the same situation.
  bool can_tell(const wire::Member& member) const {
    return self.address || member.address || finds_out_address;
  }
  Endpoint control_endpoint(const wire::Member& member) const;
  void tell(const wire::Member& member, wire::Message message, Actions& out) const {
    if (can_tell(member)) out.push_back(Send{control_endpoint(member), std::move(message)});
  }
  // Sends this peer's own entry to the circle.
  void tell_circle(Actions& out) const {
    for (const PeerId id : circle) {
      if (const Record* const record = members.find(id))
        tell(record->member, wire::Gossip{{self}, false, {}}, out);
    }
  }
  // The sender of a message, which says where it listens. A member that has no address cannot be dialed
  // there.
  Endpoint reply_to(PeerId sender, const Address& listens_at) const {
    const Record* const record = members.find(sender);
    const bool is_hidden = record != nullptr && !record->member.address;
    return is_hidden ? control_endpoint(record->member) : Endpoint{sender, listens_at};
  }
  // For an exchange or a copy.
  Endpoint bulk_endpoint(const wire::Member& member) const;
  // Whether this peer can begin an exchange with it.
  bool can_begin_with(const wire::Member& member) const {
    return member.address || bulk_endpoint(member).way != Way::dial || (self.address && is_home_of(member));
  }
  // Whether one of the two can begin an exchange with the other: else they are not neighbors.
  bool can_meet(const wire::Member& member) const {
    return can_tell(member) || relay_of(member) != nullptr || relay_of(self) != nullptr;
  }

  // Equal if two peers agree on who lives, in which incarnation and phase, themselves included.
  std::vector<std::uint64_t> digest() const;
  // A random live member that this peer can send to; null if there is none.
  Record* draw_live();
  // `count` different ones, or all if there are not more.
  std::vector<PeerId> draw_live(std::size_t count);
  // Fills the circle and draws one of it; null if no other member is live.
  const Record* draw_from_circle();
  // Drops the oldest one of a full circle with probability 1/4; draw_from_circle() replaces it.
  void renew_circle() {
    if (circle.size() >= kCircleSize && random.chance(0.25)) circle.erase(circle.begin());
  }
  // A home of the member that can call it, each of them in turn; one that relays, the same as long as it
  // responds. Null if there is none.
  const wire::Member* home_of(const wire::Member& member) const;
  const wire::Member* relay_of(const wire::Member& member) const;
  bool is_home_of(const wire::Member& member) const {
    return std::ranges::find(member.homes, self.id) != member.homes.end();
  }
  std::size_t tellable() const;  // live members that this peer can send to
  // Now plus a random part of the interval, so that peers started together do not stay in phase.
  Instant jittered(Instant now, Duration interval) {
    return now + Duration{1} + Duration{static_cast<std::int64_t>(random.below(interval.count()))};
  }
};

}  // namespace starling::gossip
