// The owner of the daemon's control connections. The daemon sends messages to peers; the table dials, does
// the handshakes, and queues, reuses and closes links by itself. Callbacks deliver what arrives. Bulk
// connections are also dialed and accepted here, and then belong to the daemon.
//
// A receiver is an Endpoint. With an id it is the peer that proves to have this id, whatever its address: a
// link with it is used if there is one, otherwise the address is dialed, and if another peer answers there,
// that one does not get the messages. Without an id it is the peer that listens at the address: a link that
// was dialed there, or else the one whose remote said last that it listens there, or else the address is
// dialed. So a peer that claims another one's address receives nothing that is meant for the other one's id.
//
// Everything happens on one single-threaded executor, without locks; no callback comes from inside a call. A
// message is delivered once, or not at all (queue full, remote gone: reported or counted), or perhaps twice
// if a link breaks while it is written. Messages on one link stay in order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/admission.h"
#include "transport/handshake.h"
#include "transport/link.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace starling::transport {

struct LinkTableOptions {
  Duration dial_limit = std::chrono::seconds(5);
  Duration handshake_limit = std::chrono::seconds(5);  // also the time of a retired link to deliver the rest
  Duration write_limit = std::chrono::seconds(10);     // for one message, if the remote does not read
  // A link unused for this time to half as much again is closed; also one on which nothing has arrived for
  // twice this time, even if messages were written: the remote may have vanished.
  Duration idle_limit = std::chrono::seconds(15);
  // Control links kept, including inbound ones. The least recently used is closed first, but never one with
  // queued messages.
  std::size_t links_max = 64;
  std::size_t dials_max = 128;  // under way; further ones wait
  // Inbound handshakes under way (Admission), and also the limit of retired links. One part in 16 is reserved
  // for the addresses of remotes that have completed a handshake in this table.
  std::size_t handshakes_max = 256;
  std::size_t handshakes_per_source_max = 16;     // IPv4 address or IPv6 /64
  std::size_t handshakes_per_loopback_max = 128;  // instead, for a loopback address
  std::size_t queue_messages_max = 256;           // waiting per receiver; the oldest is dropped first
  std::size_t queue_bytes_max = std::size_t{4} << 20;
  // Receivers with waiting messages and without a link. Beyond that the messages for the one that has waited
  // longest for its dial are dropped. REQUIRES: more than dials_max.
  std::size_t unlinked_max = 1024;
};

struct LinkTableEvents {
  // A control message. `from` is proved; `listens_at` is the address in the sender's Hello, with the
  // connection's host in place of 0.0.0.0 or ::. A message to this id uses the same link.
  std::function<void(PeerId from, const Address& listens_at, wire::Message message)> on_message;
  // A dial failed, or a link broke, timed out or received invalid bytes: once each. `to` is the receiver as
  // in send(), or the remote of the link. A remote that closes between frames is not a failure. Messages that
  // waited for a failed dial are dropped; those of a broken link get one new dial. other_peer: another peer
  // answered the dial; the link with it stays.
  std::function<void(const Endpoint& to, LinkErrorKind kind, std::string sentence)> on_unreachable;
  // An inbound bulk connection after its handshake.
  std::function<void(LinkPtr link, wire::Hello remote)> on_bulk;
  // Optional: an inbound connection that was refused, for the log. `source` is source_of() its address.
  std::function<void(LinkErrorKind kind, std::string source, std::string sentence)> on_refused;
};

struct LinkCounters {
  // By LinkErrorKind: failures in handshakes and on control links, those of bulk links through note(), and as
  // over_limit the inbound connections that were closed because too many handshakes were under way.
  std::array<std::uint64_t, kLinkErrorKinds> faults{};
  std::uint64_t operator[](LinkErrorKind kind) const { return faults[static_cast<std::size_t>(kind)]; }

  std::uint64_t handshake_timeouts = 0;  // inbound; timed_out includes them
  std::uint64_t messages_sent = 0;       // handed to the kernel
  std::uint64_t messages_received = 0;
  std::uint64_t messages_dropped = 0;  // queue full, remote unreachable, or too large
  std::uint64_t links_dialed = 0;      // control, after their handshake
  std::uint64_t links_accepted = 0;
  std::uint64_t bulk_dialed = 0;
  Traffic traffic;  // control and bulk, all bytes of the transport
};

struct BulkLink {
  LinkPtr link;
  wire::Hello remote;
};

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

  // Dials and does the handshake; the caller owns the link. Errors as in handshake.h and Transport::dial, and
  // other_peer, are counted, and not reported through on_unreachable.
  asio::awaitable<LinkResult<BulkLink>> dial_bulk(Endpoint to);

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

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace starling::transport
