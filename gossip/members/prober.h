// Whom a peer pings: live members to detect failures (Prober), failed ones and known addresses to find
// members again (Retries).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/actions.h"
#include "gossip/members/members.h"
#include "gossip/members/rumors.h"

namespace starling::gossip {

// How long a member may take to answer: half the probe interval until a round trip was measured, then TCP's
// formula (RFC 6298, section 2), plus twice this peer's own lag. At most four probe intervals: links that
// exchanges keep full delay answers for longer than one.
Duration answer_limit(const Record& record, Duration lag, Duration probe_interval);

// SWIM's failure detector (membership.h cites both papers; section 4.1): every interval one member is pinged.
// If it does not answer in time, other members ping it on this peer's behalf; if that fails too, this peer
// accuses it. If neither of the two can be dialed, only the homes of the other one can ping it, and do so at
// once. Members are probed round-robin in an order drawn for each round, which bounds the time to detect a
// failure (section 4.3). Time that this peer slept through extends every open probe (Lifeguard).
class Prober {
 public:
  Prober(LocalView& view, Rumors& rumors) : view_(view), rumors_(rumors) {}

  void start(Instant now) { next_ = view_.jittered(now, view_.options.probe_interval); }
  // This peer woke `late` after its deadline.
  void slept(Duration late);

  bool due(Instant now) const { return next_ <= now; }
  // Probes the next member of the round.
  void probe_next(Instant now, Actions& out);
  // Probes this live member unless a probe of it is open.
  enum class Helpers : std::uint8_t { none, asked };
  void probe(Instant now, Record& record, Helpers helpers, Actions& out) {
    if (!is_probing(record.member.id)) begin(now, record, helpers, out);
  }
  bool is_probing(PeerId id) const {
    return std::ranges::any_of(probes_, [id](const Probe& p) { return p.target == id && !p.over; });
  }
  // Asks helpers for open probes where that is due. Returns a member whose probe has failed; call it again
  // until it returns nullopt.
  std::optional<PeerId> advance(Instant now, Actions& out);

  // A message from this member itself: its probes are over.
  void heard(PeerId from) {
    for (Probe& probe : probes_)
      if (probe.target == from) probe.over = true;
  }
  // An Ack ends the probe or relays the answer that it belongs to, and measures the round trip. Returns the
  // member whose probe a helper's Ack has ended.
  PeerId answered(Instant now, PeerId from, const wire::Ack& ack, Actions& out);
  // Pings the target, a member, on behalf of `requester`.
  void relay(const Endpoint& requester, const wire::PingRequest& request, const wire::Member& target,
             Actions& out) {
    constexpr std::size_t kRelaysMax = 256;
    if (relays_.size() >= kRelaysMax) relays_.pop_front();
    relays_.push_back({++view_.last_sequence, request.target, requester, request.sequence});
    wire::Ping ping{view_.last_sequence, request.target, {view_.self}, requester.id, request.sequence};
    view_.tell(target, std::move(ping), out);
  }

  Instant next_deadline() const;
  std::size_t queued() const { return probes_.size() + relays_.size(); }

 private:
  struct Probe {
    PeerId target;
    std::uint64_t sequence;
    Instant sent;
    Instant ask_helpers;
    Instant verdict;
    bool asked = false;
    bool over = false;  // answered or failed; kept for a while to measure late answers
  };
  struct Relay {
    std::uint64_t sequence;
    PeerId target;
    Endpoint requester;
    std::uint64_t requested;  // the requester's sequence
  };

  void begin(Instant now, Record& record, Helpers helpers, Actions& out);
  void ask_helpers(const Probe& probe, const wire::Member& target, Actions& out);

  LocalView& view_;
  Rumors& rumors_;
  Instant next_ = kNever;
  std::vector<PeerId> order_;  // the rest of this round, taken from the back
  std::vector<Probe> probes_;
  std::deque<Relay> relays_;
  Duration lag_{0};  // how late this peer wakes, smoothed
};

// Failed members, and addresses where members may be, are pinged forever, with a capped and jittered backoff.
// A partition of any length therefore heals, and swarms that started apart find each other.
class Retries {
 public:
  static constexpr std::size_t kContactsMax = 1024;

  explicit Retries(LocalView& view) : view_(view), delay_(view.options.retry.min) {}

  void start(Instant now) { next_ = now + delay_; }
  // A member of this swarm may listen there.
  void add_contact(const Address& address) {
    if (address == view_.self.address || contacts_.size() >= kContactsMax) return;
    if (std::ranges::find(contacts_, address) == contacts_.end()) contacts_.push_back(address);
  }
  // A member has failed: the backoff starts again.
  void restart(Instant now) {
    delay_ = view_.options.retry.min;
    next_ = std::min(next_, now + delay_);
  }
  void tick(Instant now, Actions& out);
  Instant next_deadline() const { return next_; }

 private:
  LocalView& view_;
  std::vector<Address> contacts_;
  Duration delay_;
  Instant next_ = kNever;
};

}  // namespace starling::gossip
