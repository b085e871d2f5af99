// How TCP connections behave: settings that plain links and those with TLS have in common.
#pragma once

#include <cstddef>
#include <memory>

#include "base/time.h"

namespace starling::transport {

class TlsContext;  // tls.h

struct TcpOptions {
  // Most bytes moved per system call. Asio's own choice is 64 KiB, which costs twice the time on one core for
  // sender and receiver each; where both ends share a core, small may win.
  std::size_t bytes_per_call = std::size_t{1} << 20;
  int socket_buffer_bytes = 0;                        // 0: the kernel tunes it
  Duration silence_limit = std::chrono::seconds(10);  // the remote's kernel is silent for so long: broken
  // The swarm's key: every connection is encrypted and begins with both ends proving that they have it.
  // Without it, TCP as it is.
  std::shared_ptr<const TlsContext> tls{};
};

}  // namespace starling::transport
