#include "transport/links/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include <asio/ip/address.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace starling::transport {
namespace {

using asio::ip::tcp;

void notice_silence(StreamSocket& socket, Duration limit) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.native_handle(), level, option, &value, sizeof value);
  };
  const auto whole_seconds = std::chrono::duration_cast<std::chrono::seconds>(limit / 3).count();
  const int probe_s = std::max(1, static_cast<int>(whole_seconds));
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
}

}  // namespace

Address to_address(const tcp::endpoint& endpoint) {
  asio::ip::address ip = endpoint.address();
  if (ip.is_v6() && ip.to_v6().is_v4_mapped())
    ip = asio::ip::make_address_v4(asio::ip::v4_mapped, ip.to_v6());
  return {ip.to_string(), endpoint.port()};
}

void set_up(StreamSocket& socket, const TcpOptions& options) {
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (options.socket_buffer_bytes > 0) {
    socket.set_option(asio::socket_base::send_buffer_size(options.socket_buffer_bytes), ignored);
    socket.set_option(asio::socket_base::receive_buffer_size(options.socket_buffer_bytes), ignored);
  }
  notice_silence(socket, options.silence_limit);
}

bool remote_ended(int descriptor) {
  pollfd asked{descriptor, POLLRDHUP, 0};
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool has_unread(const StreamSocket& socket) {
  asio::error_code error;
  const std::size_t bytes = socket.available(error);
  return !error && bytes > 0;
}

asio::awaitable<bool> wait_for_bytes(StreamSocket& socket) {
  asio::error_code ignored;
  co_await socket.async_wait(StreamSocket::wait_read, asio::redirect_error(asio::use_awaitable, ignored));
  co_return has_unread(socket);
}

void shut(StreamSocket& socket) {
  asio::error_code ignored;
  socket.shutdown(StreamSocket::shutdown_both, ignored);
  socket.close(ignored);
}

LinkError broken(const asio::error_code& error) {
  return {{"the connection broke: " + error.message()}, LinkErrorKind::broken};
}

}  // namespace starling::transport
