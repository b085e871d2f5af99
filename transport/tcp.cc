#include "transport/tcp.h"

#include <algorithm>
#include <array>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

namespace starling::transport {
namespace {

using asio::ip::tcp;

class TcpLink final : public Link {
 public:
  TcpLink(tcp::socket socket, const tcp::endpoint& remote, const TcpShared& shared)
      : Link(socket.get_executor(), to_address(remote), shared.total, shared.shape),
        socket_(std::move(socket)),
        bytes_per_call_(shared.options.bytes_per_call) {
    set_up(socket_, shared.options);
  }

 protected:
  asio::awaitable<LinkResult<std::size_t>> receive(MutableBytes wanted, MutableBytes spare) override {
    const std::array<asio::mutable_buffer, 2> buffers = {asio::buffer(wanted.data(), wanted.size()),
                                                         asio::buffer(spare.data(), spare.size())};
    asio::error_code error;
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

  void shut_write() override {
    asio::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void shut() override { transport::shut(socket_); }

 private:
  tcp::socket socket_;
  std::size_t bytes_per_call_;
};

LinkPtr make_link(tcp::socket socket, const tcp::endpoint& remote, TlsRole role, const TcpShared& shared) {
  if (shared.options.tls) return make_tls_link(std::move(socket), remote, role, shared);
  return std::make_shared<TcpLink>(std::move(socket), remote, shared);
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
        if (!gone) self->accept(make_link(std::move(socket), remote, TlsRole::accepter, self->shared));
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

// One look-up of a name, or one connection attempt. The resolver and connect report here, and wake the
// coroutine by canceling its timer. After the deadline the coroutine may have ended (getaddrinfo cannot be
// interrupted).
struct Dial {
  explicit Dial(const asio::any_io_executor& executor)
      : resolver(executor), socket(executor), timer(executor) {}

  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
  tcp::resolver::results_type found;
  asio::error_code error;
  bool done = false;

  void report(const asio::error_code& result) {
    error = result;
    done = true;
    timer.cancel();
  }

  // True if a report came before the deadline.
  asio::awaitable<bool> wait() {
    asio::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_return std::exchange(done, false);
  }
};

}  // namespace

TcpTransport::TcpTransport(asio::any_io_executor executor, TcpOptions options)
    : executor_(std::move(executor)), shared_{.options = std::move(options), .shape = shapes().to_anyone()} {
  STARLING_CHECK(shared_.options.bytes_per_call > 0);
}

Result<std::unique_ptr<Listener>> TcpTransport::listen(const Address& at, Accept accept) {
  const auto refuse = [&](const asio::error_code& error) {
    if (error == asio::error::address_in_use) {
      return Error{"cannot listen at " + to_string(at) +
                   ": the port is in use by another program; choose another, or 0 for any"};
    }
    return Error{"cannot listen at " + to_string(at) + ": " + error.message()};
  };

  asio::error_code error;
  asio::ip::address ip = asio::ip::make_address(at.host, error);
  if (error) {
    tcp::resolver resolver(executor_);
    const auto found = resolver.resolve(at.host, std::to_string(at.port), tcp::resolver::passive, error);
    if (error) return refuse(error);
    if (found.empty()) return refuse(asio::error::host_not_found);
    ip = found.begin()->endpoint().address();
  }
  const tcp::endpoint endpoint(ip, at.port);
  tcp::acceptor acceptor(executor_);
  if (acceptor.open(endpoint.protocol(), error); error) return refuse(error);
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error); error) return refuse(error);
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
  const auto give_up = [&](LinkErrorKind kind, const std::string& why) {
    return LinkError{{"cannot reach " + to_string(to) + ": " + why}, kind};
  };

  asio::error_code not_literal;
  const asio::ip::address literal = asio::ip::make_address(to.host, not_literal);
  std::vector<tcp::endpoint> endpoints;
  if (!not_literal) {
    endpoints.emplace_back(literal, to.port);
  } else {
    const auto dial = std::make_shared<Dial>(executor_);
    dial->timer.expires_at(deadline);
    dial->resolver.async_resolve(
        to.host, std::to_string(to.port),
        [dial](const asio::error_code& error, const tcp::resolver::results_type& found) {
          dial->found = found;
          dial->report(error);
        });
    if (!co_await dial->wait())
      co_return give_up(LinkErrorKind::unreachable, "its name was not resolved in time");
    if (dial->error) co_return give_up(LinkErrorKind::unreachable, dial->error.message());
    for (const auto& entry : dial->found) endpoints.push_back(entry.endpoint());
  }

  std::string why = "its name has no address";
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const tcp::endpoint& endpoint = endpoints[i];
    const auto dial = std::make_shared<Dial>(executor_);
    // Each address gets a share of the time, so that one that does not answer leaves time for the next.
    const auto left = std::max(Duration{0}, deadline - asio::steady_timer::clock_type::now());
    dial->timer.expires_after(left / static_cast<int>(endpoints.size() - i));
    dial->socket.async_connect(endpoint, [dial](const asio::error_code& error) { dial->report(error); });
    const bool answered = co_await dial->wait();
    if (answered && !dial->error) {
      co_return make_link(std::move(dial->socket), endpoint, TlsRole::dialer, shared_);
    }
    why = answered ? dial->error.message() : "no answer in time";
    asio::error_code ignored;
    dial->socket.close(ignored);
  }
  co_return give_up(LinkErrorKind::unreachable, why);
}

}  // namespace starling::transport
