// Why a link failed. Separate from link.h, because the TLS state machine needs neither links nor Asio.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace starling::transport {

enum class LinkErrorKind : std::uint8_t {
  closed,          // by this end
  closed_by_peer,  // between two frames: the remote finished or died
  broken,          // reset, or cut in the middle of a frame
  unreachable,     // no listener, host, route or answer
  timed_out,       // connected, but silent for too long
  bad_magic,       // not Starling
  bad_version,
  bad_checksum,
  oversize,
  malformed,
  wrong_swarm,
  same_peer,       // this peer dialed itself
  refused,         // the remote sent a Refusal, or nobody waits for the call that it answers
  wrong_key,       // the remote's key differs, or this peer has none
  no_key,          // the remote has no key, and this peer has one
  busy,            // a dialed remote ended the connection before it sent a byte: it may have too many
  over_limit,      // inbound, closed by this end because too many handshakes were under way
  false_identity,  // one of the two did not prove to the other that it has the key of its id
  not_allowed,     // the list of peers of one of the two does not name the other
  other_peer,      // another peer than the expected one listens at the address
};
inline constexpr std::size_t kLinkErrorKinds = 20;
// "bad checksum", for people and labels.
constexpr std::string_view name(LinkErrorKind kind) {
  constexpr std::array<std::string_view, kLinkErrorKinds> kNames = {
      "closed",      "closed by peer", "broken",         "unreachable", "timed out",
      "bad magic",   "bad version",    "bad checksum",   "oversize",    "malformed",
      "wrong swarm", "same peer",      "refused",        "wrong key",   "no key",
      "busy",        "over limit",     "false identity", "not allowed", "other peer"};
  return kNames[static_cast<std::size_t>(kind)];
}

// What was wrong with the connection, for people: "not from a Starling peer".
constexpr std::string_view in_words(LinkErrorKind kind) {
  switch (kind) {
    case LinkErrorKind::bad_magic:
      return "not from a Starling peer";
    case LinkErrorKind::bad_version:
      return "another version of the protocol";
    case LinkErrorKind::bad_checksum:
      return "damaged in transit";
    case LinkErrorKind::oversize:
      return "message too large";
    case LinkErrorKind::wrong_swarm:
      return "another swarm";
    case LinkErrorKind::same_peer:
      return "from itself";
    case LinkErrorKind::wrong_key:
      return "another key";
    case LinkErrorKind::no_key:
      return "without a key";
    case LinkErrorKind::over_limit:
      return "too many at once";
    case LinkErrorKind::not_allowed:
      return "not on the list of peers";
    default:
      return name(kind);
  }
}

struct LinkError : Error {
  LinkErrorKind kind = LinkErrorKind::broken;
};
template <class T>
using LinkResult = Result<T, LinkError>;
using LinkStatus = LinkResult<Done>;

}  // namespace starling::transport
