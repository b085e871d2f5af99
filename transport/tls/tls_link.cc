#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "transport/coroutines.h"
#include "transport/links/tcp_socket.h"
#include "transport/trust/handshake.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

constexpr std::size_t kBufferBytesMin = 4096;
// The most ciphertext per system call: small enough to be still in the cache when it is decrypted.
constexpr std::size_t kBufferBytesMax = std::size_t{256} << 10;
constexpr std::size_t kRejectedBytesMax = std::size_t{64} << 10;  // from a refused remote
constexpr std::size_t kMagicBytes = 4;

// Whether the bytes may be the first ones of an unencrypted frame.
bool may_be_plain_frame(Bytes bytes) {
  return std::memcmp(bytes.data(), "STRL", std::min(bytes.size(), kMagicBytes)) == 0;
}

// Whether the remote's first record may be TLS: a dialer begins with a handshake, an accepter may send an
// alert.
bool may_be_tls(std::byte first, TlsRole mine) {
  return first == std::byte{22} || (mine == TlsRole::dialer && first == std::byte{21});
}

// The connection itself. The link owns it and closes it; coroutines may outlive the link, and end as soon as
// they detect that it is closed.
class TlsStream : public std::enable_shared_from_this<TlsStream> {
 public:
  TlsStream(StreamSocket socket, TlsRole role, const TcpOptions& options)
      : socket_(std::move(socket)),
        role_(role),
        context_(options.tls),
        bytes_per_call_(options.bytes_per_call),
        shaken_(socket_.get_executor()),
        sent_(socket_.get_executor()) {}

  // The coroutines keep it alive by `self`.
  static asio::awaitable<void> begin(std::shared_ptr<TlsStream> self) {
    const LinkStatus done = co_await self->shake();
    if (!done.ok()) self->failure_ = done.error();
    self->is_shaken_ = true;
    self->shaken_.raise();
  }

  static asio::awaitable<LinkResult<std::size_t>> receive(std::shared_ptr<TlsStream> self,
                                                          MutableBytes wanted, MutableBytes spare) {
    if (!self->is_shaken_) co_await self->wait_for_handshake();
    if (self->failure_) co_return *self->failure_;
    std::size_t placed = 0;
    for (;;) {
      const LinkStatus opened = self->open_into(wanted, spare, placed);
      if (!opened.ok()) co_return opened.error();
      if (placed >= wanted.size() || self->ended_ || self->engine_->ended()) co_return placed;
      // TLS may have to answer the remote.
      if (!self->engine_->outgoing().empty() && !self->sending_) {
        if (const LinkStatus sent = co_await self->send(); !sent.ok()) co_return sent.error();
      }
      const auto arrived = co_await self->receive_some(0);
      if (!arrived.ok()) co_return arrived.error();
      self->engine_->feed(Bytes(self->in_).first(*arrived));
    }
  }

  static asio::awaitable<LinkStatus> transmit(std::shared_ptr<TlsStream> self, Bytes head, Bytes body) {
    if (!self->is_shaken_) co_await self->wait_for_handshake();
    if (self->failure_) co_return *self->failure_;
    for (Bytes rest : {head, body}) {
      while (!rest.empty()) {
        const Bytes piece = rest.first(std::min(rest.size(), TlsEngine::kRecordBytes));
        if (const LinkStatus sealed = self->engine_->seal(piece); !sealed.ok()) co_return sealed.error();
        rest = rest.subspan(piece.size());
        if (self->engine_->outgoing().size() + 2 * TlsEngine::kRecordBytes <= kBufferBytesMax) continue;
        if (const LinkStatus sent = co_await self->send(); !sent.ok()) co_return sent.error();
      }
    }
    co_return co_await self->send();
  }

  // Sends TLS's close notification and ends this direction.
  static asio::awaitable<void> finish(std::shared_ptr<TlsStream> self) {
    if (!self->is_shaken_) co_await self->wait_for_handshake();
    if (self->failure_) co_return;
    self->engine_->finish();
    if (!(co_await self->send()).ok()) co_return;
    asio::error_code ignored;
    self->socket_.shutdown(StreamSocket::shutdown_send, ignored);
  }

  bool remote_ended() const { return ended_ || transport::remote_ended(socket_); }
  bool is_outdated() const { return engine_ && engine_->is_outdated(); }
  bool has_received() const { return received_ || has_unread(socket_); }
  std::vector<std::byte> channel_binding() const {
    return is_shaken_ && !failure_ ? engine_->channel_binding() : std::vector<std::byte>{};
  }
  void close() { shut(socket_); }

 private:
  asio::awaitable<void> wait_for_handshake() {
    while (!is_shaken_) co_await shaken_.wait();
  }

  asio::awaitable<LinkStatus> shake() {
    if (role_ == TlsRole::dialer) {
      engine_.emplace(context_, role_);
      const auto begun = engine_->shake();
      if (!begun.ok()) co_return begun.error();
      if (const LinkStatus sent = co_await send(); !sent.ok()) co_return sent.error();
    }
    const auto first = co_await receive_first();
    if (!first.ok()) co_return first.error();
    if (!engine_) engine_.emplace(context_, role_);
    engine_->feed(Bytes(in_).first(*first));
    for (;;) {
      const auto over = engine_->shake();
      const LinkStatus sent = co_await send();  // may be an alert
      if (!over.ok()) co_return over.error();
      if (!sent.ok()) co_return sent.error();
      if (*over) co_return Done{};
      const auto arrived = co_await receive_some(0);
      if (!arrived.ok()) co_return arrived.error();
      if (*arrived == 0)
        co_return LinkError{{"the remote closed the connection during the TLS handshake"},
                            LinkErrorKind::closed_by_peer};
      engine_->feed(Bytes(in_).first(*arrived));
    }
  }

  // Receives enough of the first bytes to decide whether the remote uses TLS.
  asio::awaitable<LinkResult<std::size_t>> receive_first() {
    std::size_t had = 0;
    do {
      const auto arrived = co_await receive_some(had);
      if (!arrived.ok()) co_return arrived.error();
      if (*arrived == 0)
        co_return LinkError{{"the remote closed the connection"}, LinkErrorKind::closed_by_peer};
      had += *arrived;
      if (may_be_tls(in_[0], role_)) co_return had;
      if (!may_be_plain_frame(Bytes(in_).first(had))) {
        const std::string_view spoken = wire::foreign_protocol(Bytes(in_).first(had));
        co_return LinkError{{std::string(spoken)}, LinkErrorKind::bad_magic};
      }
    } while (had < kMagicBytes);
    if (role_ == TlsRole::accepter) co_await refuse_plain();
    co_return LinkError{
        {"has no key, and this peer has one: start it with --key and a copy of the same key's file"},
        LinkErrorKind::no_key};
  }

  // Sends the reason to a peer without a key, unencrypted, and lets it read that.
  asio::awaitable<void> refuse_plain() {
    const wire::Message refusal = wire::Refusal{wire::RefusalReason::wrong_swarm, std::string(kKeyIsMissing)};
    const auto frame = wire::encode_frame(refusal);
    STARLING_CHECK(frame.ok());
    asio::error_code error;
    co_await asio::async_write(socket_, asio::buffer(frame->data(), frame->size()),
                               asio::redirect_error(asio::use_awaitable, error));
    socket_.shutdown(StreamSocket::shutdown_send, error);
    for (std::size_t dropped = 0; dropped < kRejectedBytesMax;) {
      const auto arrived = co_await receive_some(0);
      if (!arrived.ok() || *arrived == 0) break;
      dropped += *arrived;
    }
  }

  // Decrypts the bytes that have arrived.
  LinkStatus open_into(MutableBytes wanted, MutableBytes spare, std::size_t& placed) {
    while (placed < wanted.size() + spare.size()) {
      const bool enough = placed >= wanted.size();
      const auto opened =
          engine_->open(enough ? spare.subspan(placed - wanted.size()) : wanted.subspan(placed));
      if (!opened.ok() && enough) break;  // the next read returns it
      if (!opened.ok()) return opened.error();
      if (*opened == 0) break;
      placed += *opened;
    }
    return Done{};
  }

  // One system call, into in_ behind `had`; 0: the remote has ended its direction. REQUIRES: no other call is
  // pending.
  asio::awaitable<LinkResult<std::size_t>> receive_some(std::size_t had) {
    if (in_.size() < in_bytes_) in_.resize(in_bytes_);
    if (!received_) received_ = co_await wait_for_bytes(socket_);
    asio::error_code error;
    const std::size_t n = co_await socket_.async_read_some(asio::buffer(in_.data() + had, in_.size() - had),
                                                           asio::redirect_error(asio::use_awaitable, error));
    if (error && error != asio::error::eof) co_return broken(error);
    if (error) ended_ = true;
    if (n == in_.size()) in_bytes_ = std::min(2 * in_bytes_, kBufferBytesMax);
    co_return n;
  }

  // Sends all outgoing bytes. A reader may call this while a writer does: the second one waits.
  asio::awaitable<LinkStatus> send() {
    while (sending_) co_await sent_.wait();
    sending_ = true;
    asio::error_code error;
    while (!error && !engine_->outgoing().empty()) {
      out_.clear();
      std::swap(out_, engine_->outgoing());
      const AtLeast all{out_.size(), bytes_per_call_};
      co_await asio::async_write(socket_, asio::buffer(out_.data(), out_.size()), all,
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    out_.clear();
    sending_ = false;
    sent_.raise();
    if (error) co_return broken(error);
    co_return Done{};
  }

  StreamSocket socket_;
  TlsRole role_;
  std::shared_ptr<const TlsContext> context_;
  std::size_t bytes_per_call_;
  std::optional<TlsEngine> engine_;  // an accepter's from the first TLS record on
  std::vector<std::byte> in_;
  std::size_t in_bytes_ = kBufferBytesMin;  // the size of in_; grows with the bytes per call
  TlsBuffer out_;                           // being sent
  bool sending_ = false;
  bool is_shaken_ = false;  // the handshake has ended or failed
  bool received_ = false;   // a byte has arrived
  bool ended_ = false;      // the remote has closed the connection, perhaps without TLS's notification
  std::optional<LinkError> failure_;
  Signal shaken_;
  Signal sent_;
};

class TlsLink final : public Link {
 public:
  TlsLink(std::shared_ptr<TlsStream> stream, const asio::any_io_executor& executor, Address remote,
          const TcpShared& shared)
      : Link(executor, std::move(remote), shared.total, shared.shape), stream_(std::move(stream)) {
    spawn(executor, TlsStream::begin(stream_));
  }
  ~TlsLink() override { stream_->close(); }

  bool is_outdated() const override { return stream_->is_outdated(); }
  bool authenticates() const override { return true; }
  std::vector<std::byte> channel_binding() const override { return stream_->channel_binding(); }

 protected:
  asio::awaitable<LinkResult<std::size_t>> receive(MutableBytes wanted, MutableBytes spare) override {
    return TlsStream::receive(stream_, wanted, spare);
  }
  asio::awaitable<LinkStatus> transmit(Bytes head, Bytes body) override {
    return TlsStream::transmit(stream_, head, body);
  }
  bool remote_ended() const override { return stream_->remote_ended(); }
  bool has_received() const override { return stream_->has_received(); }
  void shut_write() override { spawn(executor(), TlsStream::finish(stream_)); }
  void shut() override { stream_->close(); }

 private:
  std::shared_ptr<TlsStream> stream_;
};

}  // namespace

LinkPtr make_tls_link(StreamSocket socket, Address remote, TlsRole role, const TcpShared& shared) {
  const asio::any_io_executor executor = socket.get_executor();
  set_up(socket, shared.options);
  auto stream = std::make_shared<TlsStream>(std::move(socket), role, shared.options);
  return std::make_shared<TlsLink>(std::move(stream), executor, std::move(remote), shared);
}

}  // namespace starling::transport
