// The addresses that a peer was asked to join: which of them will never let it in. Of the daemon's thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "transport/link.h"

namespace starling::node {

class JoinAddresses {
 public:
  explicit JoinAddresses(std::vector<Address> addresses) : addresses_(std::move(addresses)) {}

  // Counts a connection that failed. True where no retry can succeed: there is no Starling peer, one of
  // another version, swarm or key, or, repeatedly, one that accepts the connection and stays silent. Never
  // for an address that is not in the list: what others claim, or what was true once, is no reason to give
  // up.
  bool is_hopeless(const Address& address, transport::LinkErrorKind kind);
  bool is_silent(const Address& address) const { return silent_dials_.contains(address); }

 private:
  std::vector<Address> addresses_;
  std::map<Address, int> silent_dials_;
};

}  // namespace starling::node
