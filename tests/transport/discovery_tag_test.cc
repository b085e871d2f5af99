#include "transport/trust/discovery_tag.h"

#include "tests/catch.h"

namespace starling::transport {
namespace {

SwarmKey key_from(int first, int step) {
  SwarmKey key;
  for (std::byte& byte : key.bytes) byte = static_cast<std::byte>(first), first += step;
  return key;
}

}  // namespace

TEST_CASE("the tag is the HMAC of the swarm's name under its key") {
  // Computed with Python's hmac.
  CHECK(discovery_tag(key_from(0, 1), "starling") == "1dbf1033c80cade7de6785426b660151");
  CHECK(discovery_tag(key_from(0, 1), "birds") == "1a85e2e987091134e99b6c04f18693fe");
  CHECK(discovery_tag(key_from(0, 0), "starling") == "cea47d308246a10c17e1c3a58e120e58");
}

}  // namespace starling::transport
