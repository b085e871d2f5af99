// What plain links over TCP and those with TLS share: options, setting up, checking and closing a socket; and
// how those with TLS are made.
#pragma once

#include <cstddef>
#include <memory>

#include <asio/awaitable.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/ip/tcp.hpp>

#include "base/time.h"
#include "transport/links/link.h"
#include "transport/tls/tls.h"

namespace starling::transport {

// A TCP connection, or one end of a local pair (circuit.h).
using StreamSocket = asio::generic::stream_protocol::socket;

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

// The IPv4 address of an IPv4 remote, also if the listener is dual-stack.
Address to_address(const asio::ip::tcp::endpoint& endpoint);

// Sets TCP_NODELAY, buffer sizes, and the limits after which unacknowledged bytes or keep-alive probes break
// the connection. Failures are ignored, because a link works without these options; a local socket has only
// the sizes.
void set_up(StreamSocket& socket, const TcpOptions& options);

// Whether the remote has closed its direction or the connection is broken, as far as the kernel knows.
bool remote_ended(int descriptor);
template <class Socket>
bool remote_ended(const Socket& socket) {
  return remote_ended(const_cast<Socket&>(socket).native_handle());
}

// Whether bytes have arrived that were not read yet.
bool has_unread(const StreamSocket& socket);

// Waits for bytes, the end of the remote's direction or an error; true: there are bytes. A pending read would
// hide them: it takes them from the kernel some time before its coroutine continues.
asio::awaitable<bool> wait_for_bytes(StreamSocket& socket);

// Closes both directions at once.
void shut(StreamSocket& socket);

LinkError broken(const asio::error_code& error);

// Asio's completion condition: the maximum bytes of the next system call; 0 ends the operation.
struct AtLeast {
  std::size_t wanted;
  std::size_t per_call;
  std::size_t operator()(const asio::error_code& error, std::size_t moved) const {
    return error || moved >= wanted ? 0 : per_call;
  }
};

// A link over TLS on a TCP connection (tls_link.cc). The handshake starts at construction; reads and writes
// wait for it and return its error: wrong_key, no_key (a Starling peer without a key, which receives an
// explanation in plain text), bad_magic (neither TLS nor Starling), malformed, oversize. The caller limits
// its duration with expires_after(), as for every read. REQUIRES: shared.options.tls.
LinkPtr make_tls_link(StreamSocket socket, Address remote, TlsRole role, const TcpShared& shared);

}  // namespace starling::transport
