// The Membership of one peer (number 1), to which a test passes messages and time.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gossip/members/membership.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

// Membership of peer 1, and its actions so far. tell() passes news to it.
struct Table {
  explicit Table(MembershipOptions options = {}, std::uint64_t seed = 1)
      : owned(std::make_unique<Membership>(identity_of(1), member(1), options, Random(seed))),
        membership(*owned) {
    membership.start(at(0s));
  }
  // Membership of another peer.
  explicit Table(std::uint64_t number, std::uint64_t seed = 1)
      : owned(std::make_unique<Membership>(identity_of(number), member(number), MembershipOptions{},
                                           Random(seed + number))),
        membership(*owned) {
    membership.start(at(0s));
  }
  // What a member says about itself comes from itself, the rest from another member, or from `teller`.
  void tell(Instant when, wire::Member m, std::uint64_t teller = 0) {
    m = by_itself(m);
    if (teller == 0) teller = m.liveness == wire::Liveness::alive ? m.id.value : someone_else(m.id);
    membership.merge(when, PeerId{teller}, {&m, 1}, out);
  }
  // What `teller` says, as it is: nothing is signed.
  void says(Instant when, std::uint64_t teller, const wire::Member& m) {
    membership.merge(when, PeerId{teller}, {&m, 1}, out);
  }
  // The member does not answer this peer.
  void suspect(Instant when, std::uint64_t k) {
    membership.unreachable(when, {PeerId{k}, address_of(k)}, out);
  }
  // The member does not answer this peer, and its time to refute passes.
  void fail(Instant when, std::uint64_t k) {
    suspect(when, k);
    membership.tick(when + longest_suspicion({}, membership.view().members.live() + 1), out);
  }
  // The members send themselves, as an answer to the Pings so far.
  void introduce(Instant when, const std::vector<wire::Member>& members) {
    membership.tick(when, out);
    for (const auto& [to, ping] : sent<wire::Ping>(out)) {
      const auto found = std::ranges::find(members, ping.target, &wire::Member::id);
      if (found != members.end() && membership.find(found->id) == nullptr)
        membership.on(when, found->id, to, wire::Ack{ping.sequence, {by_itself(*found)}}, out);
    }
  }
  bool knows(std::uint64_t k) const { return membership.find(PeerId{k}) != nullptr; }
  const wire::Member& record(std::uint64_t k) const { return membership.find(PeerId{k})->member; }
  std::uint64_t someone_else(PeerId id) const {
    for (const Record& record : membership.others())
      if (record.member.id != id) return record.member.id.value;
    return 99;
  }
  void learn(std::uint64_t first, std::uint64_t last, wire::Phase phase = wire::Phase::training) {
    for (std::uint64_t k = first; k <= last; ++k) tell(at(0s), member(k, phase));
  }
  wire::Liveness liveness(std::uint64_t k) const { return membership.find(PeerId{k})->member.liveness; }
  // Ticks at every deadline up to `until`. The members in `answers` acknowledge pings at once.
  void run(Instant until, const std::set<std::uint64_t>& answers = {}) {
    while (membership.next_deadline() <= until) {
      now = std::max(now, membership.next_deadline());
      const std::size_t before = out.size();
      membership.tick(now, out);
      const std::vector<Action> fresh(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
      for (const auto& [to, ping] : sent<wire::Ping>(fresh)) {
        // A retry is sent to an address, without a target id.
        const std::uint64_t k = ping.target ? ping.target.value : std::stoull(to.host.substr(1));
        pinged[k].push_back(now);
        if (answers.contains(k)) membership.on(now, PeerId{k}, to, wire::Ack{ping.sequence, {}, {}}, out);
      }
    }
  }

  std::unique_ptr<Membership> owned;  // a Membership does not move
  Membership& membership;
  std::vector<Action> out;
  Instant now = at(0s);  // time of the last tick
  std::map<std::uint64_t, std::vector<Instant>> pinged;
};

}  // namespace starling::gossip
