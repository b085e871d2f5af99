#include "transport/dial/circuit.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <asio/buffer.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "transport/coroutines.h"

namespace starling::transport {
namespace {

// How long an outer link without an inner connection may make no progress.
constexpr Duration kLinger = std::chrono::seconds(5);

// The near end of the local pair and the outer link. Its coroutines keep it alive. Each direction ends by
// itself; the connections are closed when both have ended.
class Carriage {
 public:
  Carriage(StreamSocket local, LinkPtr outer) : local_(std::move(local)), outer_(std::move(outer)) {}

  static asio::awaitable<void> outward(std::shared_ptr<Carriage> self) {
    std::vector<std::byte> buffer(wire::kFrameHeaderBytes + wire::kRelayedBodyBytesMax);
    for (;;) {
      asio::error_code error;
      const std::size_t n = co_await self->local_.async_read_some(
          asio::buffer(buffer.data() + wire::kFrameHeaderBytes, wire::kRelayedBodyBytesMax),
          asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
      const Bytes frame = Bytes(buffer).first(wire::kFrameHeaderBytes + n);
      write_relayed_header(frame.subspan(wire::kFrameHeaderBytes),
                           std::span(buffer).first<wire::kFrameHeaderBytes>(), self->checksum());
      const LinkStatus written = co_await self->outer_->write(frame);
      if (!written.ok()) co_return self->close();
      self->linger();
    }
    self->outer_->finish();
    self->end_direction();
  }

  static asio::awaitable<void> inward(std::shared_ptr<Carriage> self) {
    for (;;) {
      const auto frame = co_await self->outer_->read();
      if (!frame.ok() && frame.error().kind == LinkErrorKind::closed_by_peer) break;
      if (!frame.ok() || frame->kind != wire::FrameKind::relayed) co_return self->close();
      asio::error_code error;
      co_await asio::async_write(self->local_, asio::buffer(frame->body.data(), frame->body.size()),
                                 asio::redirect_error(asio::use_awaitable, error));
      // As on TCP: bytes for a closed connection end it, but not before what it wrote has left.
      if (error && self->ended_ > 0) co_return self->close();
    }
    asio::error_code ignored;
    self->local_.shutdown(StreamSocket::shutdown_send, ignored);
    self->end_direction();
  }

  // Waits until the far end of the pair is closed.
  static asio::awaitable<void> watch(std::shared_ptr<Carriage> self) {
    asio::error_code ignored;
    if (!self->is_hung_up()) {
      co_await self->local_.async_wait(StreamSocket::wait_error,
                                       asio::redirect_error(asio::use_awaitable, ignored));
    }
    self->abandoned_ = true;
    self->linger();
  }

 private:
  bool is_hung_up() {
    pollfd asked{local_.native_handle(), 0, 0};
    return ::poll(&asked, 1, 0) > 0;
  }

  wire::Checksum checksum() const {
    return outer_->authenticates() ? wire::Checksum::none : wire::Checksum::computed;
  }

  // The outer link needs no limit while the inner one lives, because that has its own.
  void linger() {
    if (abandoned_) outer_->expires_after(kLinger);
  }

  void end_direction() {
    if (++ended_ == 2) close();
  }

  void close() {
    outer_->close();
    shut(local_);
  }

  StreamSocket local_;
  LinkPtr outer_;
  int ended_ = 0;           // directions
  bool abandoned_ = false;  // the inner connection is closed
};

}  // namespace

Result<StreamSocket> carry_inside(LinkPtr outer) {
  const asio::any_io_executor executor = outer->executor();
  asio::local::stream_protocol::socket near(executor), far(executor);
  asio::error_code error;
  asio::local::connect_pair(near, far, error);
  if (error) return Error{"cannot make a local socket: " + error.message()};
  outer->expires_never();
  outer->limit_body(wire::kRelayedBodyBytesMax);
  outer->accept_relayed();
  const auto carriage = std::make_shared<Carriage>(StreamSocket(std::move(near)), std::move(outer));
  spawn(executor, Carriage::watch(carriage));
  spawn(executor, Carriage::outward(carriage));
  spawn(executor, Carriage::inward(carriage));
  return StreamSocket(std::move(far));
}

}  // namespace starling::transport
