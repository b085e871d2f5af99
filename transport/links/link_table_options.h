// What the owner of a link table (link_table.h) sets, and what it is told.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "transport/dial/relay.h"
#include "transport/links/link.h"
#include "transport/links/link_error.h"
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
  // queued messages. Inbound links of remotes without an address do not count, because they cannot be dialed
  // again, up to unaddressed_max of them; they are not closed for being unused either.
  std::size_t links_max = 64;
  std::size_t unaddressed_max = 256;
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
  // Receivers that were called and have not connected yet. Beyond that the oldest call counts as unanswered.
  std::size_t calls_max = 256;
  RelayOptions relay{};  // of others' connections; none without a bandwidth
};

struct LinkTableEvents {
  // A control message. `from` is proved; `listens_at` is the address in the sender's Hello, with the
  // connection's host in place of 0.0.0.0 or ::. A message to this id uses the same link.
  std::function<void(PeerId from, const Address& listens_at, wire::Message message)> on_message;
  // A dial failed, or a link broke, timed out or received invalid bytes: once each. `to` is the receiver as
  // in send(), or the remote of the link. A remote that closes between frames is not a failure. Messages that
  // waited for a failed dial are dropped; messages of a broken link get one new dial. other_peer: another
  // peer answered the dial; the link with it stays. unreachable: also a call that was not answered, and a
  // receiver that cannot be dialed and has no link.
  std::function<void(const Endpoint& to, LinkErrorKind kind, std::string sentence)> on_unreachable;
  // Optional: a peer of this swarm has answered a dial to this address with its handshake.
  std::function<void(const Address& at)> on_dialed;
  // A bulk connection to serve, after its handshake: an inbound one, or the answer to a call.
  std::function<void(LinkPtr link, wire::Hello remote)> on_bulk;
  // Optional: an inbound connection that was refused, for the log. `source` is source_of() its address.
  std::function<void(LinkErrorKind kind, std::string source, std::string sentence)> on_refused;
  // Optional: whether this is a member, for which this peer relays; empty: no peer is.
  std::function<bool(PeerId)> may_relay;
};

}  // namespace starling::transport
