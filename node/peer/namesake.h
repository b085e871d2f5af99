// Another live member with this peer's name. Names only serve people; ids tell members apart. But who stops
// or pauses a peer by name must mean one peer, so a peer that has just joined gives way to the one that has
// the name already.
#pragma once

#include <optional>
#include <string>

#include "gossip/members/membership.h"

namespace starling::node {

struct Namesake {
  PeerId id;
  bool began_before = false;  // earlier than this peer
  std::string sentence;       // who has the name, and which one is free
};

// A member that has answered this peer itself and has its name; nullopt if there is none. Only a newcomer is
// told to choose another one.
std::optional<Namesake> find_namesake(const gossip::Membership& membership, bool newcomer);

}  // namespace starling::node
