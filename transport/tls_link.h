// A link over TLS on a TCP connection. The handshake starts at construction; reads and writes wait for it and
// return its error: wrong_key, no_key (a Starling peer without a key, which receives an explanation in plain
// text), bad_magic (neither TLS nor Starling), malformed, oversize. The caller limits its duration with
// expires_after(), as for every read.
#pragma once

#include "transport/tcp_socket.h"
#include "transport/tls.h"

namespace starling::transport {

// REQUIRES: shared.options.tls.
LinkPtr make_tls_link(asio::ip::tcp::socket socket, const asio::ip::tcp::endpoint& remote, TlsRole role,
                      const TcpShared& shared);

}  // namespace starling::transport
