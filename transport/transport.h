// Listening and dialing: where links come from. TcpTransport (tcp.h) is the daemon's; the tests also have one
// in memory, and one test suite checks both. Like its links, a transport lives on one single-threaded
// executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/links/link.h"

namespace starling::transport {

enum class TlsRole : std::uint8_t;  // tls.h

// Accepts connections until it is destroyed.
class Listener {
 public:
  virtual ~Listener() = default;

  // The address it listens at, with the real port in place of 0.
  virtual const Address& address() const = 0;
  virtual void close() = 0;  // at once; may be called again
};

class Transport {
 public:
  virtual ~Transport() = default;

  using Accept = std::function<void(LinkPtr)>;
  // Calls `accept` from the executor for every incoming connection, before any handshake. Resolves a host
  // name synchronously, because listening starts once. Error: one sentence with the address, such as a port
  // in use.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) = 0;

  // A connected link before any handshake, or `unreachable`. Resolves host names without blocking.
  virtual asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) = 0;

  // A link inside an open circuit: what is written on it travels in relayed frames on `outer`, and it ends
  // with `outer` (circuit.h). remote(), bytes and shape are the outer link's, so traffic() counts the bytes
  // once. Error: `broken`, if no local socket can be made. REQUIRES: nobody reads or writes `outer` from now
  // on.
  virtual LinkResult<LinkPtr> link_over(LinkPtr outer, TlsRole role) = 0;

  // Bytes of all links that it has made, except those inside circuits.
  virtual const Traffic& traffic() const = 0;

  // The shapes of its existing and new links. A frame keeps the shape that its link had when its write began.
  // A link gets the shape for its remote (Link::travel_as) once the address where that listens is known.
  LinkShapes& shapes() { return shapes_; }

 private:
  LinkShapes shapes_;
};

}  // namespace starling::transport
