// The peer's connections to others: the address where it listens, its control links and its exchanger. What
// happens on them becomes the core's events. Of the daemon's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "gossip/events.h"
#include "node/launch/outcome.h"
#include "node/peer/join_addresses.h"
#include "node/peer/parts.h"
#include "node/peer/preparation.h"
#include "node/peer/teller.h"
#include "training/experiment/control.h"
#include "transport/tcp.h"

namespace starling::node {

struct ConnectionEvents {
  std::function<void(gossip::Event)> drive;  // gives the core an event
  std::function<void()> locked_out;          // a member rejected the key
};

class Connections {
 public:
  Connections(PeerParts& parts, Teller& teller, Preparation& preparation, asio::io_context& io,
              ConnectionEvents events);
  // The links and the exchanger use the transport, so they end before it.
  ~Connections() {
    parts_.exchanger.reset();
    parts_.links.reset();
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Makes the links and listens; then the peer has its name and address. An outcome says why that fails.
  std::optional<PeerOutcome> listen();
  void make_exchanger();
  // Makes the links to an address slower, for studies.
  void shape(const training::LinkOrder& order);

 private:
  void make_links();

  PeerParts& parts_;
  Teller& teller_;
  Preparation& preparation_;
  asio::io_context& io_;
  ConnectionEvents events_;
  transport::TcpTransport transport_;
  JoinAddresses join_addresses_;
};

// Whether only this machine can reach the host.
bool is_loopback(const std::string& host);

}  // namespace starling::node
