// Which peer serves which: the live members that train or have trained, by their roles (rules.h), in this
// peer's view. The workers, sorted by name, are split evenly among the racks.
//
// A name is no identity, so the first member that this peer knew in the role of a server keeps it while it
// lives. Another one of that name serves nobody (contested()).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gossip/members/membership.h"
#include "gossip/rules.h"

namespace starling::gossip {

class Roster {
 public:
  explicit Roster(const Servers& servers) : servers_(servers) {}

  // A live member with the role of a server that another one holds, in words; nullopt if there is none, or it
  // was returned before.
  struct Contest {
    PeerId id;
    std::string text;
  };
  std::optional<Contest> contested(const Membership& membership);

  // Updates the roster if the members have changed. Returns whether they had.
  bool refresh(const Membership& membership);

  Role role() const { return role_; }
  bool serves() const { return role_.kind != Role::Kind::worker; }

  // A sentence that names a missing server; nullopt if all are there.
  std::optional<std::string> missing() const;

  struct Target {
    PeerId server;
    Part part;
  };
  // The servers to push to: an available one for each part, or the rack's. If the rack's server is not
  // available, the next rack's. Servers of a part push to nobody.
  std::vector<Target> targets(Instant now, const Membership& membership) const;

  // The part that this peer serves.
  Part own_part() const {
    return role_.kind == Role::Kind::shard ? Part{role_.number, servers_.shards} : Part{};
  }
  // The number of live peers that push to this one; at least 1.
  std::size_t pushers() const;
  // Live workers in the training phase.
  const std::vector<PeerId>& training() const { return training_; }
  // Whether a live peer that pushes to this one has not finished yet.
  bool anyone_unfinished(const Membership& membership) const;

 private:
  void appoint(const std::vector<const wire::Member*>& members);
  bool pushes_here(PeerId id) const;
  std::optional<Target> rack_server(Instant now, const Membership& membership) const;

  Servers servers_;
  Role role_;
  std::uint64_t version_ = UINT64_MAX;                 // of the membership
  bool crowded_ = false;                               // then
  std::vector<std::optional<PeerId>> shards_, racks_;  // by number: who holds the role
  std::vector<PeerId> contesting_;                     // others with these roles
  std::vector<PeerId> told_;                           // of those, returned by contested()
  std::vector<PeerId> workers_;                        // sorted by name
  std::vector<PeerId> training_;
  std::size_t own_worker_ = 0;  // a worker's index among them
};

}  // namespace starling::gossip
