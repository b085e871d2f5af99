#include "transport/link_error.h"

#include <array>

namespace starling::transport {

std::string_view name(LinkErrorKind kind) {
  constexpr std::array<std::string_view, kLinkErrorKinds> names = {
      "closed",      "closed by peer", "broken",       "unreachable", "timed out",
      "bad magic",   "bad version",    "bad checksum", "oversize",    "malformed",
      "wrong swarm", "same peer",      "refused",      "wrong key",   "no key"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace starling::transport
