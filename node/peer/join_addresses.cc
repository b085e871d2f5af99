#include "node/peer/join_addresses.h"

#include <algorithm>

namespace starling::node {
namespace {

constexpr int kSilentDialsMax = 3;

}  // namespace

bool JoinAddresses::is_hopeless(const Address& address, transport::LinkErrorKind kind) {
  using Kind = transport::LinkErrorKind;
  if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end()) return false;
  switch (kind) {
    case Kind::bad_magic:
    case Kind::bad_version:
    case Kind::wrong_swarm:
    case Kind::wrong_key:
    case Kind::no_key:
    case Kind::refused:
    case Kind::same_peer:
      return true;
    case Kind::timed_out:
    case Kind::closed_by_peer:
    case Kind::broken:
      return ++silent_dials_[address] >= kSilentDialsMax;
    default:
      return false;
  }
}

}  // namespace starling::node
