// The liveness of every member, and the evidence that changes it (SWIM, section 4.2, with incarnations).
//
//   alive -> suspect    a probe was not answered, an address is unreachable, or another peer says so
//   suspect -> failed   the suspicion window has passed, or another peer says so after half of it
//   any but left -> alive    the member has raised its incarnation; suspect -> alive also by its own message
//   any -> left         the member itself said goodbye
//
// No rumor takes a member from alive to failed in one step: it becomes suspect and gets time to refute. When
// a partition heals, the failures that one side recorded therefore do not spread to the other. Only the
// member itself raises its incarnation, and only its own verified messages are direct evidence that it lives.
#pragma once

#include <span>
#include <vector>

#include "gossip/actions.h"
#include "gossip/circle.h"
#include "gossip/local_view.h"
#include "gossip/retries.h"
#include "gossip/rumors.h"
#include "gossip/views.h"

namespace starling::gossip {

class MemberStates {
 public:
  MemberStates(LocalView& view, Rumors& rumors, Circle& circle, Retries& retries, const Views& views)
      : view_(view), rumors_(rumors), circle_(circle), retries_(retries), views_(views) {}

  // News from this peer.
  void merge(Instant now, PeerId teller, std::span<const wire::Member> news, std::vector<Action>& out);
  // A member that was dead before this peer joined.
  void add_dead(Instant now, const wire::Member& dead);
  // At least this number of samples was consumed by a known member.
  void progressed(Instant now, Record& record, std::uint64_t samples);

  // A message from the member itself, sent from this address.
  void heard(Instant now, Record& record, const Address& address, std::vector<Action>& out);
  // Sends to this address fail.
  void unreachable(Instant now, const Address& address, std::vector<Action>& out);
  // The accuser's probe was not answered. Returns false if that changes nothing.
  bool accuse(Instant now, Record& record, PeerId accuser, std::vector<Action>& out);

  // Suspects whose window has passed have failed.
  void tick(Instant now, std::vector<Action>& out);
  // This peer woke `late` after its deadline: suspects get that much more time.
  void slept(Duration late);
  Instant next_deadline() const;
  std::size_t suspects() const { return suspects_.size(); }

 private:
  bool merge_one(Instant now, PeerId teller, const wire::Member& news, std::vector<Action>& out);
  bool merge_incarnation(Instant now, Record& record, const wire::Member& news, std::vector<Action>& out);
  bool merge_liveness(Instant now, Record& record, PeerId teller, const wire::Member& news,
                      std::vector<Action>& out);
  bool add_live(Instant now, const wire::Member& news, std::vector<Action>& out);
  void refute(const wire::Member& news, std::vector<Action>& out);
  void correct(PeerId teller, std::span<const wire::Member> news, std::vector<Action>& out);
  bool accept_failure(Instant now, Record& record, PeerId teller, std::vector<Action>& out);
  void set_liveness(Instant now, Record& record, wire::Liveness liveness, std::vector<Action>& out);
  void warn(Instant now, Record& record, std::vector<Action>& out);
  void supersede(Instant now, PeerId by, const Address& address, std::vector<Action>& out);
  Instant window_end(const Record& suspect) const;

  LocalView& view_;
  Rumors& rumors_;
  Circle& circle_;
  Retries& retries_;
  const Views& views_;
  std::vector<PeerId> suspects_;
};

}  // namespace starling::gossip
