// How links come about: listening and dialling. Two twins keep this contract, and one test suite holds both
// to it: TcpTransport (tcp.h) for the daemon, MemoryTransport (memory.h) for tests. Like its links, a
// transport lives on one single-threaded executor.
#pragma once

#include <functional>
#include <memory>

#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/link.h"

namespace starling::transport {

// Accepts as long as it lives.
class Listener {
 public:
  virtual ~Listener() = default;
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Where it listens in truth: port 0 has become a real one.
  virtual const Address& address() const = 0;
  virtual void close() = 0;  // at once; harmless when repeated
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  using Accept = std::function<void(LinkPtr)>;
  // Calls `accept`, from the executor, with every connection that comes in, before any handshake. A host name
  // is resolved here and now (listening begins once, at the start). Error: one sentence with the address,
  // such as a port in use.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) = 0;

  // A connected link, before any handshake; or unreachable. Host names are resolved without
  // blocking.
  virtual asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) = 0;

  // Bytes of all links it ever made.
  virtual const Traffic& traffic() const = 0;

  // From now on what all its links send, the old ones' and the new ones', travels like this; each frame like
  // its link was when its writing began.
  void shape_links(const LinkShape& shape) { shapes_.set_all(shape); }
  // The same of those alone that travel_as() what stands here, whatever is said of all links later.
  void shape_links_to(const Address& remote, const LinkShape& shape) { shapes_.set_to(remote, shape); }
  // For Link::travel_as(), once it is known at which address the link's remote listens.
  std::shared_ptr<const LinkShape> shape_to(const Address& remote) { return shapes_.to(remote); }

 private:
  LinkShapes shapes_;

 protected:
  const std::shared_ptr<const LinkShape> shape_ = shapes_.to_anyone();  // of new links
};

}  // namespace starling::transport
