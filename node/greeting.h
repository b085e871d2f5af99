// Says Hello to a peer as one of its swarm would, with this machine's key or without one, and goes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "transport/link.h"
#include "transport/tls.h"

namespace starling::node {

// Nothing where it was let in. `tls`: of the key; null: there is none. Takes a few seconds at most.
std::optional<transport::LinkError> greet(const Address& peer, const std::string& swarm,
                                          std::shared_ptr<const transport::TlsContext> tls);

}  // namespace starling::node
