// The transport over TCP. Frames leave at once (TCP_NODELAY); bulk moves in large system calls; a remote that
// stops acknowledging breaks the link after `silence_limit` rather than after the kernel's quarter of an
// hour, also where nothing is on its way (the kernel asks now and then).
#pragma once

#include <memory>

#include <asio/any_io_executor.hpp>

#include "transport/tcp_options.h"
#include "transport/transport.h"

namespace starling::transport {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(asio::any_io_executor executor, TcpOptions options = {});

  Result<std::unique_ptr<Listener>> listen(const Address& at, Accept accept) override;
  asio::awaitable<LinkResult<LinkPtr>> dial(Address to, Duration at_most) override;
  const Traffic& traffic() const override { return *traffic_; }

 private:
  asio::any_io_executor executor_;
  TcpOptions options_;
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

}  // namespace starling::transport
