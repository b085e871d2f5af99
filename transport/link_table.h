// Who can be talked to: the daemon's one owner of control connections. It is told "send this message to
// whoever listens there", and dials, shakes hands, queues, reuses and closes links by itself; what arrives
// comes out through callbacks. Bulk connections are dialled and accepted through it too, and then belong to
// the daemon.
//
// Everything happens on one single-threaded executor; there are no locks, and no callback comes from inside a
// call that the daemon makes. A message is delivered once, or not at all (queue full, remote gone: reported
// or counted), or, if a link breaks in the middle of its writing, perhaps twice. Order holds while one link
// lasts.
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
#include "transport/link.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace starling::transport {

struct LinkTableOptions {
  Duration dial_limit = std::chrono::seconds(5);
  Duration handshake_limit =
      std::chrono::seconds(5);  // also: how long a link that is given up may still deliver
  Duration write_limit = std::chrono::seconds(10);  // one message, into a remote that does not read
  // A link unused for so long is closed (by half as much again); also one on which nothing has come in for
  // twice as long, whatever was written: the remote may have vanished without a word.
  Duration idle_limit = std::chrono::seconds(15);
  // Control links kept, inbound ones included: beyond that the least recently used goes first, never one that
  // has something to write.
  std::size_t links_max = 64;
  std::size_t dials_max = 128;       // under way; further ones wait their turn
  std::size_t handshakes_max = 256;  // inbound connections that have not introduced themselves; as many links
                                     // may be on their way out
  std::size_t queue_messages_max = 256;  // waiting per remote; the oldest is dropped first
  std::size_t queue_bytes_max = std::size_t{4} << 20;
};

struct LinkTableEvents {
  // A control message. `listens_at` is the sender's Hello address (its host filled in from the connection if
  // it said 0.0.0.0 or ::); sending there answers over the same link.
  std::function<void(PeerId from, const Address& listens_at, wire::Message message)> on_message;
  // A dial that failed, or a link that broke, was silent or talked nonsense: once each. A remote that closes
  // between frames is no failure. Messages that waited for a failed dial are dropped; those of a broken link
  // get one new dial.
  std::function<void(const Address& address, LinkErrorKind kind, std::string sentence)> on_unreachable;
  // An inbound bulk connection after its handshake.
  std::function<void(LinkPtr link, wire::Hello remote)> on_bulk;
  // Optional: an inbound connection that was refused, for the log.
  std::function<void(LinkErrorKind kind, std::string sentence)> on_refused;
};

struct LinkCounters {
  // By kind, whatever was refused or went wrong in handshakes and on control links (and on bulk links,
  // through note()): bad magic, bad version, bad checksum, oversize, malformed, wrong swarm, timed out...
  std::array<std::uint64_t, kLinkErrorKinds> faults{};
  std::uint64_t operator[](LinkErrorKind kind) const { return faults[static_cast<std::size_t>(kind)]; }

  std::uint64_t handshake_timeouts = 0;  // inbound; also among timed_out
  std::uint64_t handshakes_refused = 0;  // inbound, closed unheard because handshakes_max were under way
  std::uint64_t messages_sent = 0;       // handed to the kernel
  std::uint64_t messages_received = 0;
  std::uint64_t messages_dropped = 0;  // queue full, remote unreachable, or too large
  std::uint64_t links_dialled = 0;     // control, after their handshake
  std::uint64_t links_accepted = 0;
  std::uint64_t bulk_dialled = 0;
  std::uint64_t bulk_accepted = 0;
  Traffic traffic;  // control and bulk, all bytes of the transport
};

struct BulkLink {
  LinkPtr link;
  wire::Hello remote;
};

class LinkTable {
 public:
  // `self` is what this peer says of itself in every handshake (its purpose is ignored).
  // REQUIRES: `transport` outlives the executor's last work on behalf of this table (simplest: the
  // io_context).
  LinkTable(asio::any_io_executor executor, Transport& transport, wire::Hello self, LinkTableEvents events,
            LinkTableOptions options = {});
  ~LinkTable();  // closes
  LinkTable(const LinkTable&) = delete;
  LinkTable& operator=(const LinkTable&) = delete;

  // Begins to accept; returns the true address (port 0 resolved). The Hello keeps its address until
  // set_hello().
  Result<Address> listen(const Address& at);
  void set_hello(wire::Hello self);  // for handshakes from now on
  const wire::Hello& hello() const;

  // Queues a control message (not a Hello, nothing of the bulk's) to whoever listens at `to`. Returns at
  // once.
  void send(const Address& to, const wire::Message& message);

  // Dials and shakes hands; the link is the caller's. Errors as in handshake.h and Transport::dial; counted
  // here, and not reported through on_unreachable.
  asio::awaitable<LinkResult<BulkLink>> dial_bulk(Address to);

  // Counts a fault that the daemon met on a bulk link.
  void note(const LinkError& error);

  // Waits until all queued messages are written and the remotes have taken note, at most `at_most`; then
  // close().
  asio::awaitable<void> shut_down(Duration at_most);
  // Stops listening, closes every control link, drops what is queued; no callback comes afterwards.
  void close();

  LinkCounters counters() const;
  std::size_t links() const;       // control links in use
  std::size_t handshakes() const;  // inbound handshakes under way

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace starling::transport
