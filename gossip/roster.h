// Who serves whom, as this peer sees it: the live members that train or have trained, by their roles
// (servers.h). The workers, sorted by name, are split evenly among the racks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gossip/membership.h"
#include "gossip/servers.h"

namespace starling::gossip {

class Roster {
 public:
  explicit Roster(const Servers& servers) : servers_(servers) {}

  // Looks at the members anew where they have changed. Returns whether they had.
  bool refresh(const Membership& membership);

  Role role() const { return role_; }
  bool serves() const { return role_.kind != Role::Kind::worker; }

  // Which server is not there yet, in a sentence; nullopt where all are.
  std::optional<std::string> missing() const;

  struct Target {
    PeerId server;
    Part part;
  };
  // Whom this peer pushes to: a server of each part that can be met now, or its rack's. Of a rack whose
  // server cannot be met the next one's. Nobody, of a server at the top.
  std::vector<Target> targets(Instant now, const Membership& membership) const;

  // The part that this peer serves.
  Part own_part() const;
  // How many push to this peer, itself alive; at least 1.
  std::size_t pushers() const;
  // Live, and in the midst of training.
  const std::vector<PeerId>& training() const { return training_; }
  // Whether somebody who pushes to this peer has not finished yet.
  bool anyone_unfinished(const Membership& membership) const;

 private:
  bool pushes_here(PeerId id) const;
  std::optional<Target> rack_server(Instant now, const Membership& membership) const;

  Servers servers_;
  Role role_;
  std::uint64_t version_ = UINT64_MAX;  // of the membership that this shows
  std::vector<std::vector<PeerId>> shards_,
      racks_;                    // by number; of a name several instances may be thought alive
  std::vector<PeerId> workers_;  // sorted by name
  std::vector<PeerId> training_;
  std::size_t own_worker_ = 0;  // this peer's place among the workers, of a worker
};

}  // namespace starling::gossip
