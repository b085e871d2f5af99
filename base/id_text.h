// Reads the text form of a peer's id, which to_string() writes.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/ids.h"

namespace starling {

// nullopt: the text is not sixteen hexadecimal digits, or they are all 0.
inline std::optional<PeerId> parse_peer_id(std::string_view text) {
  PeerId id;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id.value, 16);
  const bool whole = text.size() == 16 && error == std::errc{} && end == text.data() + text.size();
  return whole && id ? std::optional(id) : std::nullopt;
}

}  // namespace starling
