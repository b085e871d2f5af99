// Members that this peer knows only from what others say. Each is pinged once, if need be through the member
// that named it, and becomes a member when it has answered (MemberStates). Until then it is no vertex of the
// topology, nobody copies from it or gossips with it, and nobody is told about it. One that does not answer
// is forgotten, except if the Welcome named it: then it has failed. Lies about members that do not exist have
// a bounded cost: at most kPerTeller wait for each teller and kTotal in all, a few pings are under way at a
// time, and each of its members that did not answer takes one place of a teller for a while.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/actions.h"
#include "gossip/members/members.h"

namespace starling::gossip {

class Introductions {
 public:
  static constexpr std::size_t kPerTeller = 64;  // waiting
  static constexpr std::size_t kTotal = 1024;
  static constexpr std::size_t kAtOnce = 64;  // pings under way
  static constexpr std::size_t kAtOncePerTeller = 16;
  static constexpr std::size_t kAtOncePerHost = 4;

  explicit Introductions(LocalView& view) : view_(view) {}

  // A member says that another one lives, which this peer does not know.
  void offer(Instant now, PeerId teller, const wire::Member& news);
  bool is_waiting(PeerId id) const { return find(id) != nullptr; }
  // The Welcome names it, if it is waiting: its samples count, and if it does not answer, it is returned by
  // take_silent().
  void keep(const wire::Member& named);
  // Of one that the Welcome names; else 0.
  std::uint64_t samples_of(PeerId id) const {
    const Candidate* const candidate = find(id);
    return candidate != nullptr && candidate->kept ? candidate->member.samples : 0;
  }
  // Of all that the Welcome names.
  std::uint64_t samples() const;
  bool any_silent() const { return !silent_.empty(); }
  std::vector<wire::Member> take_silent() { return std::exchange(silent_, {}); }
  // Pings as many as may be. A teller whose members have all answered, and which knows more, is asked for
  // them.
  void tick(Instant now, Actions& out);
  // This peer has heard it, or it is dead: no ping is necessary.
  void drop(PeerId id);
  // The member, if it has signed this answer to the request that this peer sent to its teller.
  std::optional<wire::Member> answered_for(const wire::Ack& ack) const;
  // Sends there fail.
  void unreachable(Instant now, const Endpoint& to);
  // This peer woke `late` after its deadline.
  void slept(Duration late) {
    for (Candidate& candidate : candidates_) {
      for (Instant* const deadline : {&candidate.deadline, &candidate.ask_teller})
        if (*deadline != kNever) *deadline = *deadline + late;
    }
  }
  Instant next_deadline() const;
  std::size_t size() const { return candidates_.size(); }

 private:
  struct Candidate {
    wire::Member member;
    PeerId teller;
    Instant deadline = kNever;  // of the answer; kNever: not pinged yet
    Instant ask_teller = kNever;
    std::uint64_t sequence = 0;  // of the ping
    bool kept = false;
  };
  struct Teller {
    std::size_t waiting = 0;  // candidates
    double failures = 0;      // recent ones; each occupies a place
    Instant counted;          // when failures was last brought up to date
    bool knows_more = false;  // something was dropped because it had too many
  };

  const Candidate* find(PeerId id) const;
  double failures(const Teller& teller, Instant now) const;
  void fail(Instant now, std::size_t index);
  void erase(std::size_t index);
  void ping(Instant now, Actions& out);
  void ask_teller_of(Candidate& candidate, Actions& out);
  void ask_tellers(Instant now, Actions& out);

  LocalView& view_;
  std::vector<Candidate> candidates_;  // the oldest first
  std::size_t pinged_ = 0;             // of them
  bool may_ping_ = false;              // one more, perhaps: a candidate came or went since the latest ping()
  std::map<PeerId, Teller> tellers_;   // that have candidates or failures
  std::vector<wire::Member> silent_;   // kept ones that did not answer
};

}  // namespace starling::gossip
