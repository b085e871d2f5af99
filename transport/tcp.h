// The transport over TCP. Frames leave at once (TCP_NODELAY); bulk moves in large system calls; a remote that
// stops acknowledging breaks the link after `silence_limit` rather than after the kernel's quarter of an
// hour, also where nothing is on its way (the kernel asks now and then).
#pragma once

#include <cstddef>
#include <memory>

#include <asio/any_io_executor.hpp>

#include "transport/transport.h"

namespace starling::transport {

class TlsContext;  // tls.h

struct TcpOptions {
  // Most bytes moved per system call. Asio's own choice is 64 KiB, which costs twice the time on one core for
  // sender and receiver each; where both ends share a core, small may win.
  std::size_t bytes_per_call = std::size_t{1} << 20;
  int socket_buffer_bytes = 0;                        // 0: the kernel tunes it
  Duration silence_limit = std::chrono::seconds(10);  // the remote's kernel is silent for so long: broken
  // The swarm's key: every connection is encrypted and begins with both ends proving that they have it. Without it, TCP
  // as it is.
  std::shared_ptr<const TlsContext> tls{};
};

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
