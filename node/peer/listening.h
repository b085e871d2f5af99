// The life of a peer in which others can reach it: its identity and name, the address where it listens, its
// control links, its exchanger, and what its options asked it to open. Used by the daemon's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "gossip/events.h"
#include "node/exchange/exchanger.h"
#include "node/front/board.h"
#include "node/front/log_limiter.h"
#include "node/keep/checkpointer.h"
#include "node/peer/key_watch.h"
#include "node/peer/lives.h"
#include "node/peer/remembered.h"
#include "node/trainers/attachment.h"
#include "transport/links/link_table.h"
#include "transport/links/tcp.h"
#include "transport/trust/identity.h"

namespace starling::node {

class Listening {
 public:
  // Finds or makes the identity and listens. Before that it opens TensorBoard's folder and what the peer
  // remembers, afterwards the folder for new checkpoints and the trainer's socket, if the options name them.
  // The Error names the option.
  static Result<std::unique_ptr<Listening>> open(Started& started);
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  struct Events {
    std::function<void(gossip::Event)> core = [](const gossip::Event&) {};       // of the links
    std::function<void(gossip::Event)> exchanged = [](const gossip::Event&) {};  // of the exchanger
    std::function<bool(PeerId)> is_member = [](PeerId) { return false; };
    std::function<std::uint64_t()> steps = [] { return std::uint64_t{0}; };  // applied to the replica so far
  };
  // From now on. REQUIRES: the loop does not run yet, or not any more.
  void listen_to(Events events) { events_ = std::move(events); }

  const wire::Hello& self() const { return self_; }
  const Identity& identity() const { return *identity_; }
  const Address& address() const { return address_; }  // with the actual port; empty: it does not listen
  const std::optional<transport::SwarmKeys>& keys() const { return key_watch_.keys(); }
  Remembered& remembered() { return remembered_; }
  const Remembered& remembered() const { return remembered_; }
  transport::LinkTable& links() { return links_; }
  const transport::LinkTable& links() const { return links_; }
  Exchanger& exchanger() { return exchanger_; }
  const Exchanger& exchanger() const { return exchanger_; }
  // null: the options do not ask for it
  Board* board() { return board_.get(); }
  Checkpointer* checkpoints() { return checkpoints_.get(); }
  Attachment* attachment() const { return attachment_.get(); }

  // Ends in DialTried, unless the peer ends first.
  void try_dial(const gossip::TryDial& asked);
  // The launcher's command (training::LinkOrder) to slow down the links to an address, for studies.
  void obey(const std::string& link_order);

 private:
  using IdentityPtr = std::shared_ptr<const transport::Ed25519Identity>;

  Listening(Started& started, Remembered remembered, IdentityPtr identity);
  Status listen();
  Status open_board();
  Status open_checkpoints();
  Status open_trainers_socket();
  transport::Self self_for_links() const;
  transport::LinkTableEvents link_events();
  ExchangerOptions exchanger_options() const;
  void take_failure(const Endpoint& to, transport::LinkErrorKind kind, std::string why);
  bool is_hopeless(const Address& address, transport::LinkErrorKind kind);

  Started& started_;
  Events events_{};
  std::unique_ptr<Board> board_;
  Remembered remembered_;
  IdentityPtr identity_;
  wire::Hello self_{};
  Address address_;
  // The links and the exchanger use what is above them.
  transport::TcpTransport transport_;
  transport::LinkTable links_;
  Exchanger exchanger_;
  KeyWatch key_watch_;
  std::unique_ptr<Checkpointer> checkpoints_;
  std::unique_ptr<Attachment> attachment_;
  std::map<Address, int> silent_dials_;  // of the addresses to join
  std::set<Address> reached_;            // those of them where a peer has answered
  LogLimiter refusals_{64};              // of inbound connections
};

}  // namespace starling::node
