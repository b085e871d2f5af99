// What plain links and those with TLS have in common: how a TCP socket is set up and asked.
#pragma once

#include <cstddef>

#include <asio/ip/tcp.hpp>

#include "transport/link.h"
#include "transport/tcp_options.h"

namespace starling::transport {

// An IPv4 remote of a dual-stack listener shows as what it is.
Address to_address(const asio::ip::tcp::endpoint& endpoint);

// Frames leave at once; buffers as asked for; unacknowledged bytes break the connection after the limit, and
// so do keep-alive probes on one that rests. A link works without any of these.
void set_up(asio::ip::tcp::socket& socket, const TcpOptions& options);

// Whether the kernel knows that the remote has ended its direction, or that the connection is broken.
bool remote_ended(const asio::ip::tcp::socket& socket);

// Ends both directions at once.
void shut(asio::ip::tcp::socket& socket);

LinkError broken(const asio::error_code& error);

// Asio's completion condition: how many bytes the next system call may move at most; 0 ends the operation.
struct AtLeast {
  std::size_t wanted;
  std::size_t per_call;
  std::size_t operator()(const asio::error_code& error, std::size_t moved) const {
    return error || moved >= wanted ? 0 : per_call;
  }
};

}  // namespace starling::transport
