#include "transport/links/tcp.h"

#include <algorithm>
#include <array>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "transport/dial/circuit.h"
#include "transport/links/listen_error.h"

namespace starling::transport {
namespace {

using asio::ip::tcp;

class TcpLink final : public Link {
 public:
  TcpLink(StreamSocket socket, Address remote, const TcpShared& shared)
      : Link(socket.get_executor(), std::move(remote), shared.total, shared.shape),
        socket_(std::move(socket)),
        bytes_per_call_(shared.options.bytes_per_call) {
    set_up(socket_, shared.options);
  }

 protected:
  asio::awaitable<LinkResult<std::size_t>> receive(MutableBytes wanted, MutableBytes spare) override {
    const std::array<asio::mutable_buffer, 2> buffers = {asio::buffer(wanted.data(), wanted.size()),
                                                         asio::buffer(spare.data(), spare.size())};
    asio::error_code error;
    if (!received_) received_ = co_await wait_for_bytes(socket_);
    const AtLeast enough{wanted.size(), bytes_per_call_};
    const std::size_t n =
        co_await asio::async_read(socket_, buffers, enough, asio::redirect_error(asio::use_awaitable, error));
    if (error && error != asio::error::eof) co_return broken(error);
    co_return n;
  }

  asio::awaitable<LinkStatus> transmit(Bytes head, Bytes body) override {
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head.data(), head.size()),
                                                       asio::buffer(body.data(), body.size())};
    asio::error_code error;
    const AtLeast all{head.size() + body.size(), bytes_per_call_};
    co_await asio::async_write(socket_, buffers, all, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return broken(error);
    co_return Done{};
  }

  bool remote_ended() const override { return transport::remote_ended(socket_); }
  bool has_received() const override { return received_ || has_unread(socket_); }

  void shut_write() override {
    asio::error_code ignored;
    socket_.shutdown(StreamSocket::shutdown_send, ignored);
  }

  void shut() override { transport::shut(socket_); }

 private:
  StreamSocket socket_;
  std::size_t bytes_per_call_;
  bool received_ = false;  // a byte has arrived
};

LinkPtr make_link(StreamSocket socket, Address remote, TlsRole role, const TcpShared& shared) {
  if (shared.options.tls) return make_tls_link(std::move(socket), std::move(remote), role, shared);
  return std::make_shared<TcpLink>(std::move(socket), std::move(remote), shared);
}

class TcpListener final : public Listener {
 public:
  TcpListener(tcp::acceptor acceptor, Address address, Transport::Accept accept, const TcpShared& shared)
      : address_(std::move(address)),
        state_(std::make_shared<State>(std::move(acceptor), std::move(accept), shared)) {
    state_->next();
  }
  ~TcpListener() override { close(); }

  const Address& address() const override { return address_; }
  void close() override { state_->close(); }

 private:
  // Outlives the listener while an accept is pending.
  struct State : std::enable_shared_from_this<State> {
    State(tcp::acceptor a, Transport::Accept callback, const TcpShared& s)
        : acceptor(std::move(a)), pause(acceptor.get_executor()), accept(std::move(callback)), shared(s) {}

    void next() {
      acceptor.async_accept([self = shared_from_this()](const asio::error_code& error, tcp::socket socket) {
        if (self->closed) return;
        if (error) {
          self->later();
          return;
        }
        asio::error_code gone;
        const tcp::endpoint remote = socket.remote_endpoint(gone);
        if (!gone)
          self->accept(make_link(std::move(socket), to_address(remote), TlsRole::accepter, self->shared));
        if (!self->closed) self->next();
      });
    }

    // Usually the process has no file descriptors left; the connection waits in the kernel's queue.
    void later() {
      pause.expires_after(std::chrono::milliseconds(100));
      pause.async_wait([self = shared_from_this()](const asio::error_code&) {
        if (!self->closed) self->next();
      });
    }

    void close() {
      closed = true;
      asio::error_code ignored;
      acceptor.close(ignored);
      pause.cancel();
    }

    tcp::acceptor acceptor;
    asio::steady_timer pause;
    Transport::Accept accept;
    TcpShared shared;
    bool closed = false;
  };

  Address address_;
  std::shared_ptr<State> state_;
};

// One connection attempt. It wakes the coroutine by canceling its timer.
struct Attempt {
  explicit Attempt(const asio::any_io_executor& executor) : socket(executor), timer(executor) {}

  tcp::socket socket;
  asio::steady_timer timer;
  asio::error_code error;
  bool done = false;
};

asio::awaitable<Result<tcp::socket>> attempt(asio::any_io_executor executor, tcp::endpoint to,
                                             asio::steady_timer::time_point deadline) {
  const auto dial = std::make_shared<Attempt>(executor);
  dial->timer.expires_at(deadline);
  dial->socket.async_connect(to, [dial](const asio::error_code& error) {
    dial->error = error;
    dial->done = true;
    dial->timer.cancel();
  });
  asio::error_code ignored;
  co_await dial->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (dial->done && !dial->error) co_return std::move(dial->socket);
  dial->socket.close(ignored);
  co_return Error{dial->done ? dial->error.message() : "no answer in time"};
}

}  // namespace

TcpTransport::TcpTransport(asio::any_io_executor executor, TcpOptions options, ResolverOptions names)
    : executor_(std::move(executor)),
      shared_{.options = std::move(options), .shape = shapes().to_anyone()},
      resolver_(executor_, std::move(names)) {
  STARLING_CHECK(shared_.options.bytes_per_call > 0);
}

Result<std::unique_ptr<Listener>> TcpTransport::listen(const Address& at, Accept accept) {
  const auto refuse = [&](const asio::error_code& error) { return listen_error(at, error); };

  auto found = addresses_without_lookup(at.host);
  if (!found) {
    auto answer = look_up(at.host);
    if (!answer.ok()) return Error{"cannot listen at " + to_string(at) + ": " + answer.error().message};
    found = std::move(*answer);
  }
  if (found->empty()) return refuse(asio::error::host_not_found);
  asio::error_code error;
  const tcp::endpoint endpoint(found->front(), at.port);
  tcp::acceptor acceptor(executor_);
  if (acceptor.open(endpoint.protocol(), error); error) return refuse(error);
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error); error) return refuse(error);
  if (endpoint.address() == asio::ip::address_v6::any()) {
    // Takes IPv4 connections, too, whatever the system's default is.
    if (acceptor.set_option(asio::ip::v6_only(false), error); error) return refuse(error);
  }
  if (acceptor.bind(endpoint, error); error) return refuse(error);
  if (acceptor.listen(asio::socket_base::max_listen_connections, error); error) return refuse(error);
  const tcp::endpoint local = acceptor.local_endpoint(error);
  if (error) return refuse(error);
  const Address true_address{at.host, local.port()};
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(std::move(acceptor), true_address, std::move(accept), shared_));
}

asio::awaitable<LinkResult<LinkPtr>> TcpTransport::dial(Address to, Duration at_most) {
  const auto deadline = asio::steady_timer::clock_type::now() + at_most;
  const auto left = [&] {
    return std::max(Duration{0}, Duration{deadline - asio::steady_timer::clock_type::now()});
  };
  const auto give_up = [&](const std::string& why) {
    return LinkError{{"cannot reach " + to_string(to) + ": " + why}, LinkErrorKind::unreachable};
  };

  if (const auto good = resolver_.last_good(to.host)) {
    const tcp::endpoint endpoint(*good, to.port);
    auto socket = co_await attempt(executor_, endpoint, deadline - left() / 2);
    if (socket.ok()) co_return make_link(std::move(*socket), to_address(endpoint), TlsRole::dialer, shared_);
  }

  const auto found = co_await resolver_.resolve(to.host, deadline);
  if (!found.ok()) co_return give_up(found.error().message);
  std::string why;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const tcp::endpoint endpoint((*found)[i], to.port);
    // Each address gets a share of the time, so that one that does not answer leaves time for the next.
    const auto share = left() / static_cast<int>(found->size() - i);
    auto socket = co_await attempt(executor_, endpoint, asio::steady_timer::clock_type::now() + share);
    if (socket.ok()) {
      resolver_.connected(to.host, endpoint.address());
      co_return make_link(std::move(*socket), to_address(endpoint), TlsRole::dialer, shared_);
    }
    why = socket.error().message;
  }
  co_return give_up(why);
}

LinkResult<LinkPtr> TcpTransport::link_over(LinkPtr outer, TlsRole role) {
  Address remote = outer->remote();
  auto local = carry_inside(std::move(outer));
  if (!local.ok()) return LinkError{local.error(), LinkErrorKind::broken};
  // The outer link counts the bytes and has the shape.
  const TcpShared inner{.options = shared_.options, .shape = std::make_shared<LinkShape>()};
  return make_link(std::move(*local), std::move(remote), role, inner);
}

}  // namespace starling::transport
