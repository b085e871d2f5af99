// The identity of a peer: a random 64-bit id that it draws at every start, so a restarted peer has a new one.
// The name of a peer is only for display. An Address is where it listens.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling {

struct PeerId {
  std::uint64_t value = 0;  // 0: no peer

  friend constexpr auto operator<=>(PeerId, PeerId) = default;
  explicit constexpr operator bool() const { return value != 0; }
};

// Sixteen hexadecimal digits.
std::string to_string(PeerId id);

struct Address {
  std::string host;  // a name, or an IPv4 or IPv6 literal without brackets
  std::uint16_t port = 0;

  friend auto operator<=>(const Address&, const Address&) = default;

  // "HOST:PORT", with an IPv6 literal in brackets: "[::1]:7100". Port 0 lets a listener use any free port.
  static Result<Address> parse(std::string_view text);
};

std::string to_string(const Address& address);

}  // namespace starling
