// What plain links over TCP and those with TLS have in common.
#pragma once

#include <cstddef>
#include <memory>

#include "base/time.h"
#include "transport/link.h"

namespace starling::transport {

class TlsContext;  // tls.h

struct TcpOptions {
  // Maximum bytes per system call. With Asio's default, 64 KiB, sender and receiver each need twice the time
  // on one core. Smaller values can be faster if both ends share a core.
  std::size_t bytes_per_call = std::size_t{1} << 20;
  int socket_buffer_bytes = 0;  // 0: the kernel tunes it
  // After this much silence of the remote's kernel the link breaks.
  Duration silence_limit = std::chrono::seconds(10);
  // With the swarm's key every connection is encrypted, and both ends prove that they have the key; null:
  // plain TCP.
  std::shared_ptr<const TlsContext> tls{};
};

// What all links of a transport share.
struct TcpShared {
  TcpOptions options;
  std::shared_ptr<Traffic> total = std::make_shared<Traffic>();
  std::shared_ptr<const LinkShape> shape;  // of new links
};

}  // namespace starling::transport
