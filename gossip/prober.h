// SWIM's failure detector (Das, Gupta, Motivala: "SWIM: Scalable weakly-consistent infection-style process
// group membership protocol", DSN 2002, section 4.1): every interval one member is pinged. If it does not
// answer in time, other members ping it on this peer's behalf; if that fails too, this peer accuses it.
//
// Members are probed round-robin in an order drawn for each round, which bounds the time to detect a failure
// (section 4.3). Time that this peer slept through extends every open probe (Lifeguard).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "gossip/actions.h"
#include "gossip/local_view.h"
#include "gossip/rumors.h"

namespace starling::gossip {

class Prober {
 public:
  Prober(LocalView& view, Rumors& rumors) : view_(view), rumors_(rumors) {}

  void start(Instant now);
  // This peer woke `late` after its deadline.
  void slept(Duration late);

  bool due(Instant now) const { return next_ <= now; }
  // Probes the next member of the round.
  void probe_next(Instant now, std::vector<Action>& out);
  // Probes this live member unless a probe of it is open.
  void probe(Instant now, Record& record, std::vector<Action>& out);
  // Asks helpers for open probes where that is due. Returns a member whose probe has failed; call it again
  // until it returns nullopt.
  std::optional<PeerId> advance(Instant now, std::vector<Action>& out);

  // A message from this member itself: its probes are over.
  void heard(PeerId from);
  // An Ack ends the probe or relays the answer that it belongs to, and measures the round trip.
  void answered(Instant now, PeerId from, const wire::Ack& ack, std::vector<Action>& out);
  // Pings the target on behalf of `requester`.
  void relay(const Address& requester, const wire::PingRequest& request, std::vector<Action>& out);

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
    Address requester;
    std::uint64_t requested;  // the requester's sequence
  };

  void begin(Instant now, Record& record, std::vector<Action>& out);
  void ask_helpers(const Probe& probe, const Address& target, std::vector<Action>& out);

  LocalView& view_;
  Rumors& rumors_;
  Instant next_ = kNever;
  std::vector<PeerId> order_;  // the rest of this round, taken from the back
  std::vector<Probe> probes_;
  std::deque<Relay> relays_;
  Duration lag_{0};  // how late this peer wakes, smoothed
};

}  // namespace starling::gossip
