// The owner of the daemon's control connections. The daemon sends messages to peers; the table dials, does
// the handshakes, and queues, reuses and closes links by itself. Callbacks deliver what arrives. Bulk
// connections are also dialed and accepted here, and then belong to the daemon.
//
// A receiver is an Endpoint. With an id it is the peer that proves to have this id, whatever its address: a
// link with it is used if there is one, otherwise the address is dialed, and if another peer answers there,
// that one does not get the messages. A peer that cannot be dialed is called or relayed instead
// (Endpoint::way, docs/PROTOCOL.md). Without an id it is the peer that listens at the address: a link that
// was dialed there, or else the one whose remote said last that it listens there, or else the address is
// dialed. So a peer that claims another one's address receives nothing that is meant for the other one's id.
//
// Everything happens on one single-threaded executor, without locks; no callback comes from inside a call. A
// message is delivered once, or not at all (queue full, remote gone: reported or counted), or perhaps twice
// if a link breaks while it is written. Messages on one link stay in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/dial/connector.h"
#include "transport/links/link_counters.h"
#include "transport/links/link_table_options.h"
#include "transport/transport.h"
#include "transport/trust/handshake.h"
#include "wire/messages.h"

namespace starling::transport {

class LinkTableState;

class LinkTable {
 public:
  // `self` is this peer in every handshake; the purpose of its Hello is ignored. REQUIRES: `transport` and
  // the identity outlive the executor's last work for this table (simplest: the io_context).
  LinkTable(asio::any_io_executor executor, Transport& transport, Self self, LinkTableEvents events,
            LinkTableOptions options = {});
  ~LinkTable();  // closes
  LinkTable(const LinkTable&) = delete;
  LinkTable& operator=(const LinkTable&) = delete;

  // Begins to accept. Returns the address with the actual port. The Hello keeps its address until
  // set_hello().
  Result<Address> listen(const Address& at);
  void set_hello(wire::Hello self);  // for handshakes from now on; its id and key stay the identity's
  const wire::Hello& hello() const;

  // Queues a message. Returns at once. REQUIRES: it is a control message other than a Hello or a Proof.
  void send(const Endpoint& to, const wire::Message& message);

  // Connects in the way of the Endpoint (dials, calls and waits, or through a relay), and does the handshake;
  // the caller owns the link. Errors as in handshake.h and Transport::dial; other_peer; unreachable also
  // without an address or an answer to the call; refused with the sentence of a relay; busy if too many calls
  // wait. They are counted, and not reported through on_unreachable. Takes at most dial_limit and
  // handshake_limit for each address, and through a relay twice dial_limit and four times handshake_limit.
  asio::awaitable<LinkResult<BulkLink>> dial_bulk(Endpoint to);

  // Answers a Call: for bulk, dials `to`, which is the caller, and serves the connection (on_bulk); for
  // relay, dials `to`, which is the relay, and serves the connection that the caller makes through it.
  // Returns at once. At most 32 at a time, and nothing for control; failures are only counted.
  void answer_call(const Endpoint& to, wire::Purpose purpose, std::uint64_t number);

  // Whether a new connection to exactly to.address reaches the peer to.id (if it is not 0): dials, does the
  // handshake, and ends the connection. It has the purpose relay, and no request follows, so the other peer
  // ends it, too, without further effect; links with that peer stay as they are. Errors as of dial_bulk,
  // counted; busy: 16 tries are under way.
  asio::awaitable<LinkStatus> try_dial(Endpoint to);

  // Counts a failure of a bulk link.
  void note(const LinkError& error);

  // Waits until all queued messages are written and the remotes have closed, for `at_most`; then close().
  asio::awaitable<void> shut_down(Duration at_most);
  // Stops listening, closes every control link, drops queued messages; no callback comes afterwards.
  void close();

  LinkCounters counters() const;
  std::size_t links() const;       // control links in use
  std::size_t handshakes() const;  // inbound handshakes under way
  std::size_t unlinked() const;    // receivers with waiting messages and without a link
  std::size_t calls() const;       // calls that wait for their answer, control and bulk

 private:
  std::shared_ptr<LinkTableState> state_;
};

}  // namespace starling::transport
