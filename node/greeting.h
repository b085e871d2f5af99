// Says Hello to a peer as a new member of its swarm would, with this machine's key or without one, and
// disconnects.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "transport/link.h"
#include "transport/tls.h"

namespace starling::node {

// nullopt: the peer accepted it. `tls`: from the key; null: no key. Takes a few seconds at most.
std::optional<transport::LinkError> greet(const Address& peer, const std::string& swarm,
                                          std::shared_ptr<const transport::TlsContext> tls);

}  // namespace starling::node
