// How this peer is reached. A peer that cannot be dialed, because it is behind a router or does not listen,
// takes part: a few members that can be dialed are its homes. It keeps links to them, names them in its
// record, and they pass on to it what makes it dial others (wire::Call). docs/PROTOCOL.md, "Reach".
//
// A peer finds out by asking members to dial it, again and again: an address may change, and a router may
// begin or cease to let connections in. One report that a member has reached it counts for more than all that
// say the contrary, so liars alone cannot hide a peer that can be dialed.
// No report hides the only one: without a member that can be dialed nobody has homes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/members/members.h"
#include "gossip/members/prober.h"
#include "gossip/members/rumors.h"

namespace starling::gossip {

class Reach {
 public:
  static constexpr std::size_t kAsked = 3;      // members at a time
  static constexpr std::size_t kTriesMax = 16;  // for others, under way

  Reach(LocalView& view, Rumors& rumors, Prober& prober)
      : view_(view), rumors_(rumors), prober_(prober), stated_(view.self.address) {
    view_.finds_out_address = !stated_ && view_.options.reach.finds_address;
  }

  void start(Instant now) { next_check_ = next_visit_ = now; }
  void tick(Instant now, Actions& out);
  // This peer woke `late` after its deadline.
  void slept(Duration late) {
    if (deadline_ != kNever) deadline_ = deadline_ + late;
  }
  Instant next_deadline() const { return std::min({next_check_, deadline_, next_visit_}); }
  std::size_t queued() const { return asked_.size() + tries_.size(); }

  void on(Instant now, PeerId from, const wire::ReachReport& report, Actions& out);
  // For others: members, and one stranger a second, who may want to know this before it joins.
  void on(Instant now, PeerId from, const Address& address, const wire::ReachRequest& request, Actions& out);
  void tried(const DialTried& tried, Actions& out);
  void on(Instant now, PeerId from, const wire::Call& call, Actions& out);

 private:
  struct Asked {
    PeerId member;
    std::uint64_t sequence;
    bool has_answered = false;
    bool reached = false;
    Address address{};
  };
  struct Try {
    PeerId requester;
    std::uint64_t sequence;
    Address address;
  };
  struct Known {
    Address address;
    Instant confirmed;
  };

  bool may_listen() const { return stated_ || view_.options.reach.finds_address; }
  bool is_asking() const { return deadline_ != kNever; }
  void ask(Instant now, Actions& out);
  std::vector<PeerId> hidden_heard_last(std::size_t most) const;
  void judge(Instant now, Actions& out);
  bool may_withdraw() const;  // its address
  bool confirm(Instant now);  // false: no address now
  std::vector<Address> addresses() const;
  void publish(std::vector<Address> addresses, Actions& out);
  void tell_failed(Actions& out) const;
  void visit_homes(Instant now, Actions& out);
  std::vector<PeerId> chosen_homes() const;
  bool is_home(const Record& record) const;

  LocalView& view_;
  Rumors& rumors_;
  Prober& prober_;
  Address stated_;              // by the user; empty: found out
  std::vector<Known> known_{};  // that members have reached; the longest known first
  std::vector<Asked> asked_{};
  Instant next_check_ = kNever;
  Instant deadline_ = kNever;  // of the reports; kNever: nobody is asked now
  Instant next_visit_ = kNever;
  Instant next_ping_{};      // to homes
  std::deque<Try> tries_{};  // for others
  Budget calls_{32};         // that this peer answers
  Budget strangers_{1};      // requests of peers that are not members
};

}  // namespace starling::gossip
