// Shared by plain links and links with TLS: setting up, checking and closing a TCP socket.
#pragma once

#include <cstddef>

#include <asio/ip/tcp.hpp>

#include "transport/tcp_options.h"

namespace starling::transport {

// The IPv4 address of an IPv4 remote, also if the listener is dual-stack.
Address to_address(const asio::ip::tcp::endpoint& endpoint);

// Sets TCP_NODELAY, buffer sizes, and the limits after which unacknowledged bytes or keep-alive probes break
// the connection. Failures are ignored, because a link works without these options.
void set_up(asio::ip::tcp::socket& socket, const TcpOptions& options);

// Whether the remote has closed its direction or the connection is broken, as far as the kernel knows.
bool remote_ended(const asio::ip::tcp::socket& socket);

// Closes both directions at once.
void shut(asio::ip::tcp::socket& socket);

LinkError broken(const asio::error_code& error);

// Asio's completion condition: the maximum bytes of the next system call; 0 ends the operation.
struct AtLeast {
  std::size_t wanted;
  std::size_t per_call;
  std::size_t operator()(const asio::error_code& error, std::size_t moved) const {
    return error || moved >= wanted ? 0 : per_call;
  }
};

}  // namespace starling::transport
