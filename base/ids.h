// The id of a peer is 64 bits of a hash of its public key (base/identity.h). Its name is only for display. An
// Address is where it listens. All readers of hosts and names, from the wire, from files and from the command
// line, use the checks below, so what one of them accepts and a peer writes, another one can read.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling {

struct PeerId {
  std::uint64_t value = 0;  // 0: no peer

  friend constexpr auto operator<=>(PeerId, PeerId) = default;
  explicit constexpr operator bool() const { return value != 0; }
};

// Sixteen hexadecimal digits.
std::string to_string(PeerId id);

// Maximum lengths, in bytes; part of the protocol.
inline constexpr std::size_t kHostBytesMax = 253;
inline constexpr std::size_t kNameBytesMax = 64;

// Whether the text may be the host of an address: not empty, not too long, printable (is_printable()),
// without spaces and brackets.
bool is_host(std::string_view text);
// Whether the text may be the name of a member: not too long, printable, without spaces. It may be empty.
bool is_member_name(std::string_view text);
// Whether a user may choose the name for a peer or a swarm. It becomes part of file names: letters, digits,
// '-', '_' and '.', without a leading '.'. Every such name is the name of a member.
bool is_plain_name(std::string_view text);

struct Address {
  std::string host;  // a name, or an IPv4 or IPv6 literal without brackets; empty: no address
  std::uint16_t port = 0;

  friend auto operator<=>(const Address&, const Address&) = default;
  explicit operator bool() const { return !host.empty(); }

  // "HOST:PORT", with an IPv6 literal in brackets: "[::1]:7100". Port 0 lets a listener use any free port.
  static Result<Address> parse(std::string_view text);
};

// "HOST:PORT", or "no address".
std::string to_string(const Address& address);

// Whether a listener at this host listens on all interfaces: "0.0.0.0" or "::".
inline bool is_any_host(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

// Whether the host is an address that only machines of the same site can dial: a loopback, link-local, shared
// or private one (RFC 1122, 3927, 4193, 4291, 6598, 1918). False for names.
bool is_local_host(std::string_view host);

// How the connection to a receiver is made, unless there is one already.
enum class Way : std::uint8_t {
  dial,   // this peer dials the receiver
  call,   // a member asks the receiver to dial this peer
  relay,  // a member passes bytes on between the two; bulk connections only
};

// A receiver: the peer with this id, and where it listens. Id 0: any peer that listens there.
struct Endpoint {
  PeerId id;
  Address address;  // of the receiver or, if it is called or relayed, of `via`; empty: it cannot be dialed
  Way way = Way::dial;
  PeerId via{};                 // the member that calls or relays
  std::vector<Address> also{};  // further addresses of the same peer, which are tried after `address`

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// The member that calls or relays. REQUIRES: to.way is not dial.
inline Endpoint helper_of(const Endpoint& to) { return {to.via, to.address, Way::dial, {}, to.also}; }

}  // namespace starling
