// The peer's connections to others: the address where it listens, its control links and its exchanger. What
// happens on them becomes the core's events. Used by the daemon's thread only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "gossip/events.h"
#include "node/front/log_limiter.h"
#include "node/peer/key_watch.h"
#include "node/peer/parts.h"
#include "node/peer/preparation.h"
#include "node/peer/teller.h"
#include "transport/tcp.h"

namespace starling::node {

class Connections {
 public:
  Connections(PeerParts& parts, Teller& teller, Preparation& preparation);
  // The links and the exchanger use the transport, so they end before it.
  ~Connections() {
    parts_.exchanger.reset();
    parts_.links.reset();
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Finds or makes the identity, makes the links, and listens; then the peer has its id, name and address.
  Status listen();
  // Where the peer listens, with the actual port; empty: it does not.
  const Address& listening() const { return listening_; }
  const std::optional<transport::SwarmKeys>& keys() const { return key_watch_.keys(); }
  void make_exchanger();
  // Ends in DialTried, unless the peer ends first.
  void try_dial(const gossip::TryDial& asked);
  // The launcher's command (training::LinkOrder) to slow down the links to an address, for studies.
  void obey(const std::string& link_order);

 private:
  Status find_identity();
  void make_links();
  void take(gossip::Event event);
  void take_failure(const Endpoint& to, transport::LinkErrorKind kind, std::string why);
  bool is_hopeless(const Address& address, transport::LinkErrorKind kind);

  PeerParts& parts_;
  Teller& teller_;
  Preparation& preparation_;
  transport::TcpTransport transport_;
  KeyWatch key_watch_{parts_};
  Address listening_;
  std::map<Address, int> silent_dials_;  // of the addresses to join
  LogLimiter refusals_{64};              // of inbound connections
};

}  // namespace starling::node
