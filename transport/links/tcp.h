// The transport over TCP. Frames are sent without delay (TCP_NODELAY), bulk data in large system calls. A
// remote that stops acknowledging breaks the link after `silence_limit` instead of the kernel's 15 minutes,
// also on an idle link (keep-alive probes). A name is dialed at the address of its last connection first.
#pragma once

#include <memory>

#include <asio/any_io_executor.hpp>

#include "transport/dial/resolver.h"
#include "transport/links/tcp_socket.h"
#include "transport/transport.h"

namespace starling::transport {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(asio::any_io_executor executor, TcpOptions options = {}, ResolverOptions names = {});

  Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) override;
  asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) override;
  LinkResult<LinkPtr> link_over(LinkPtr outer, TlsRole role) override;
  const Traffic& traffic() const override { return *shared_.total; }

 private:
  asio::any_io_executor executor_;
  TcpShared shared_;
  Resolver resolver_;
};

}  // namespace starling::transport
