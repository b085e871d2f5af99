// The Membership of one peer (number 1), to which a test passes messages and time.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gossip/membership.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

// Membership of peer 1, and its actions so far. tell() passes news to it.
struct Table {
  explicit Table(MembershipOptions options = {}, std::uint64_t seed = 1)
      : owned(std::make_unique<Membership>(identity_of(1), member(1), options, Random(seed))), membership(*owned) {
    membership.start(at(0s));
  }
  // Membership of another peer.
  explicit Table(std::uint64_t number, std::uint64_t seed = 1)
      : owned(std::make_unique<Membership>(identity_of(number), member(number), MembershipOptions{}, Random(seed + number))),
        membership(*owned) {
    membership.start(at(0s));
  }
  // What a member says about itself comes from itself, the rest from another member, or from `teller`.
  void tell(Instant when, wire::Member m, std::uint64_t teller = 0) {
    m = by_itself(m);
    if (teller == 0) teller = m.liveness == wire::Liveness::alive ? m.id.value : someone_else(m.id);
    membership.merge(when, PeerId{teller}, {&m, 1}, out);
  }
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
