// What a peer announces on its local network: the strings of a TXT record of DNS-SD (RFC 6763, section 6).
// Announcements come from strangers, so every length is bounded and every value checked.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace starling::node {

inline constexpr std::string_view kOpenTag = "open";  // of a swarm without a key
inline constexpr std::size_t kTxtStringsMax = 16;
inline constexpr std::size_t kTxtBytesMax = 255;  // of one string

struct Announcement {
  std::string swarm;
  PeerId id;
  std::string tag;  // kOpenTag, or transport::discovery_tag() of the swarm's first key

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

// "v=1", "swarm=NAME", "id=ID", "tag=TAG".
std::vector<std::string> to_txt(const Announcement& announcement);
// nullopt: no peer of this version writes these strings. Unknown keys are skipped.
std::optional<Announcement> parse_announcement(std::span<const std::string> txt);

// Whether an announced address may be dialed: an IPv4 or IPv6 literal of one machine other than this one, and
// a port. False for link-local IPv6 addresses, which mean nothing without the interface.
bool is_dialable(const Address& address);

}  // namespace starling::node
