// By what peers with the same key recognize one another on a local network, before they connect.
#pragma once

#include <string>

#include "transport/trust/swarm_key.h"

namespace starling::transport {

// The first 16 bytes of HMAC-SHA256 under the key over "starling discovery", a zero byte and the swarm's
// name, in hexadecimal. It is public and reveals nothing about the key; who copies it proves nothing.
std::string discovery_tag(const SwarmKey& key, const std::string& swarm);

}  // namespace starling::transport
