// Says Hello to a peer as a new member of its swarm would, with this machine's key or without one, and
// disconnects.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "transport/links/link.h"
#include "transport/tls/tls.h"

namespace starling::node {

// nullopt: the peer accepted it. `tls`: from the key; null: no key. Takes a few seconds at most.
std::optional<transport::LinkError> greet(const Address& peer, const std::string& swarm,
                                          std::shared_ptr<const transport::TlsContext> tls);

// Asks a peer to dial this machine, where this function listens meanwhile. Takes about ten seconds at most.
struct DialedBack {
  bool reached = false;
  Address address;  // that the peer has dialed
};
// `listen`: as a peer's --listen; its port may not be 0. Error: one sentence, such as that the port is in use
// or that the peer did not answer.
Result<DialedBack> ask_to_be_dialed(const Address& peer, const Address& listen, const std::string& swarm,
                                    std::shared_ptr<const transport::TlsContext> tls);

}  // namespace starling::node
