// The peers of this swarm that announce themselves on the local network, and when to try to dial them. An
// announcement is only a hint: a contact is a peer that has answered at the announced address and proved its
// id and, in a swarm with a key, that it has the key. Pure: no clock, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace starling::node {

// One announcement, as it was received.
struct Sighting {
  std::string service;  // its name, interface and protocol: a key, never shown
  Address address;
  std::vector<std::string> txt;
};

class Neighborhood {
 public:
  static constexpr std::size_t kSightingsMax = 256;  // kept; further ones are ignored
  static constexpr std::size_t kContactsMax = 16;
  static constexpr Duration kRetry = std::chrono::minutes(1);  // between two tries of one address

  Neighborhood(std::string swarm, PeerId self) : swarm_(std::move(swarm)), self_(self) {}

  // Accepts announcements with one of these tags from now on.
  void set_tags(std::vector<std::string> tags) { tags_ = std::move(tags); }

  void see(const Sighting& sighting);
  void lose(const std::string& service) { entries_.erase(service); }
  void clear() { entries_.clear(); }

  // The peer to be tried next, if one is due: the one that has waited longest. Each address is returned once
  // per kRetry, and never one of a peer that `is_known`.
  std::optional<Endpoint> next(Instant now, const std::function<bool(PeerId)>& is_known);
  // It has answered.
  void answered(const Endpoint& peer);
  // The addresses that have answered; at most kContactsMax.
  std::vector<Address> contacts() const;

  // Announcements that were not kept, by reason. Those of this peer itself do not count.
  struct Ignored {
    std::uint64_t malformed = 0, other_swarms = 0, other_keys = 0, not_dialable = 0, too_many = 0;
  };
  const Ignored& ignored() const { return ignored_; }

 private:
  struct Entry {
    Endpoint peer;
    Instant due;  // the next try
    bool answered = false;
  };

  std::string swarm_;
  PeerId self_;
  std::vector<std::string> tags_;
  std::map<std::string, Entry> entries_;  // by service
  Ignored ignored_;
};

}  // namespace starling::node
