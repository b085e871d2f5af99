// One Peer (number 1) that a test drives event by event. `out` collects the peer's actions.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/peer.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

inline RunRules rules_of(Pace pace = {Pace::Kind::steps, 8, {}}, End end = {},
                         const std::string& topology = "complete", Rule rule = Rule::pairwise) {
  return RunRules{*topologies::Topology::parse(topology), rule, pace, end};
}

class Life {
  std::unique_ptr<Peer> owned_;  // a Peer does not move

 public:
  explicit Life(PeerOptions options = {}, std::uint64_t number = 1)
      : owned_(std::make_unique<Peer>(with_identity(std::move(options), number))), peer(*owned_) {}

  // Passes the event to the peer at the current instant, and returns the resulting actions.
  std::vector<Action> happens(const Event& event) {
    std::vector<Action> fresh;
    peer.step(now, event, fresh);
    out.insert(out.end(), fresh.begin(), fresh.end());
    return fresh;
  }
  std::vector<Action> hears(std::uint64_t from, wire::Message message) {
    return happens(Received{PeerId{from}, address_of(from), by_themselves(std::move(message))});
  }
  // Member m sends its own record.
  std::vector<Action> meets(const wire::Member& m) { return hears(m.id.value, wire::Gossip{{m}, false}); }
  // Advances time, with a Tick at every deadline, until `until` or the peer's end. The peers in `alive`
  // answer pings at once.
  std::vector<Action> waits(Instant until, const std::vector<std::uint64_t>& alive = {}) {
    std::vector<Action> passed;
    while (!peer.view().over && peer.next_deadline() <= until) {
      now = peer.next_deadline();
      const auto fresh = happens(Tick{});
      passed.insert(passed.end(), fresh.begin(), fresh.end());
      for (const auto& [to, ping] : sent<wire::Ping>(fresh)) {
        if (peer.view().over || std::find(alive.begin(), alive.end(), ping.target.value) == alive.end())
          continue;
        const auto more = hears(ping.target.value, wire::Ack{ping.sequence, {}});
        passed.insert(passed.end(), more.begin(), more.end());
      }
    }
    now = std::max(now, until);
    return passed;
  }

  // Begins a run and trains. These other members train, too.
  void trains(const RunRules& rules, const std::vector<std::uint64_t>& others = {}) {
    happens(Start{});
    for (const auto k : others) meets(member(k));
    happens(Prepared{rules});
  }

  wire::Phase phase() const { return peer.view().membership.self().phase; }

  Peer& peer;
  Instant now = at(0s);
  std::vector<Action> out;

 private:
  static PeerOptions with_identity(PeerOptions options, std::uint64_t number) {
    options.identity = &identity_of(number);
    if (options.name.empty()) options.name = "p" + std::to_string(number);
    if (!options.membership.reach.finds_address) options.address = address_of(number);
    return options;
  }
};

inline PeerOptions joining(const std::vector<std::uint64_t>& through) {
  PeerOptions options;
  for (const auto k : through) options.join.push_back(address_of(k));
  return options;
}

inline wire::Manifest manifest() {
  wire::Manifest m;
  m.model = "lenet";
  m.arena_floats = 1000;
  return m;
}

}  // namespace starling::gossip
