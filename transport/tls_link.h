// A link over TLS on a TCP connection. Its handshake begins by itself, before anybody reads or writes, and
// whatever is read or written waits for it; what is wrong with it is the first error that those return:
// wrong_key, no_key (a Starling peer without one, which is told in plain words what it lacks), bad_magic
// (neither), malformed, oversize. How long it may take is the user's affair, as with every read:
// expires_after().
#pragma once

#include <memory>

#include <asio/ip/tcp.hpp>

#include "transport/link.h"
#include "transport/tcp_options.h"
#include "transport/tls.h"

namespace starling::transport {

// REQUIRES: options.tls.
LinkPtr make_tls_link(asio::ip::tcp::socket socket, const asio::ip::tcp::endpoint& remote, TlsRole role,
                      const TcpOptions& options, std::shared_ptr<Traffic> total,
                      std::shared_ptr<const LinkShape> shape);

}  // namespace starling::transport
