#include "transport/links/link.h"

#include <algorithm>

#include "transport/coroutines.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::array kKinds = {LinkErrorKind::bad_magic, LinkErrorKind::bad_version, LinkErrorKind::oversize,
                               LinkErrorKind::malformed, LinkErrorKind::bad_checksum};  // by wire::FrameFault

constexpr const char* kHasKey =
    "has a key (it uses TLS), and this peer has none: start it with --key and a copy of the same key's "
    "file";

// The head of a TLS record that begins a handshake.
bool is_tls(Bytes first) { return first[0] == std::byte{22} && first[1] == std::byte{3}; }

}  // namespace

Link::Link(asio::any_io_executor executor, Address remote, std::shared_ptr<Traffic> total,
           std::shared_ptr<const LinkShape> shape)
    : executor_(std::move(executor)),
      remote_(std::move(remote)),
      total_(std::move(total)),
      shape_(std::move(shape)),
      timer_(executor_) {}

Link::~Link() {
  if (delay_) delay_->close();
}

asio::awaitable<LinkResult<Frame>> Link::read() {
  if (failure_) co_return *failure_;
  if (read_failure_) co_return *read_failure_;

  std::array<std::byte, wire::kFrameHeaderBytes> header_bytes = ahead_;
  std::size_t placed = std::exchange(ahead_bytes_, 0);
  if (placed < header_bytes.size()) {
    const MutableBytes rest = MutableBytes(header_bytes).subspan(placed);
    const bool begun = placed > 0;
    const LinkStatus filled = co_await fill(rest, {}, placed, begun);
    if (!filled.ok()) co_return filled.error();
  }
  const auto header = wire::FrameHeader::parse(header_bytes);
  if (!header.ok()) {
    const bool tls = traffic_.received <= header_bytes.size() && is_tls(header_bytes);
    if (!tls && header.error().fault != wire::FrameFault::bad_version) co_return fail(header.error());
    // The link stays open, so that a refusal can be sent.
    read_failure_ = tls ? LinkError{{kHasKey}, LinkErrorKind::wrong_key}
                        : LinkError{header.error(), LinkErrorKind::bad_version};
    co_return *read_failure_;
  }
  if (header->kind == wire::FrameKind::relayed && !accepts_relayed_)
    co_return fail(LinkErrorKind::malformed, "a relayed frame outside of a circuit");
  const std::size_t body_bytes = header->body_bytes;
  if (body_bytes > body_bytes_max_) {
    co_return fail(LinkErrorKind::oversize, "a frame of " + std::to_string(body_bytes) +
                                                " bytes; the limit is " + std::to_string(body_bytes_max_));
  }

  reserve(wire::kFrameHeaderBytes + body_bytes);
  std::copy(header_bytes.begin(), header_bytes.end(), buffer_.get());
  const MutableBytes frame(buffer_.get(), wire::kFrameHeaderBytes + body_bytes);
  const MutableBytes body = frame.subspan(wire::kFrameHeaderBytes);
  if (body_bytes > 0) {
    // One system call takes the body and, if it is there already, the next frame's header.
    const LinkStatus filled = co_await fill(body, ahead_, placed, true);
    if (!filled.ok()) co_return filled.error();
    ahead_bytes_ = placed - body_bytes;
  }

  Frame out;
  out.kind = header->kind;
  const bool is_chunk = out.kind == wire::FrameKind::chunk;
  out.body = is_chunk ? body.subspan(wire::kChunkHeadBytes) : body;
  const auto checksum = [&] {
    return is_chunk ? wire::chunk_checksum(Bytes(frame).first<wire::kChunkPrefixBytes>(), out.body)
                    : wire::control_checksum(frame, body);
  };
  if (!authenticates() && checksum() != header->checksum) {
    co_return fail(LinkErrorKind::bad_checksum, "a frame's checksum does not match its bytes");
  }
  if (is_chunk) {
    const auto head = wire::parse_chunk_head(Bytes(body).first<wire::kChunkHeadBytes>(), header->body_bytes);
    if (!head.ok()) co_return fail(head.error());
    out.chunk = *head;
  }
  co_return out;
}

// Reads until `wanted` is full; `placed` becomes the bytes read, spare ones included.
asio::awaitable<LinkStatus> Link::fill(MutableBytes wanted, MutableBytes spare, std::size_t& placed,
                                       bool frame_begun) {
  const auto received = co_await receive(wanted, spare);
  if (!received.ok()) co_return fail(received.error());
  placed = *received;
  traffic_.received += placed;
  total_->received += placed;
  if (failure_) co_return *failure_;
  if (placed < wanted.size()) {
    if (placed > 0 || frame_begun)
      co_return fail(LinkErrorKind::broken, "the connection ended in the middle of a frame");
    LinkError ended{{"the remote closed the connection"}, LinkErrorKind::closed_by_peer};
    if (!accepts_relayed_) co_return fail(ended);
    read_failure_ = std::move(ended);
    co_return *read_failure_;
  }
  co_return Done{};
}

asio::awaitable<LinkStatus> Link::write(Bytes head, Bytes body) {
  if (failure_) co_return *failure_;
  // Once a link has a delay line it keeps using it, because bytes must not overtake others.
  if (delay_ || !shape_->plain()) {
    const LinkStatus taken = co_await write_shaped(*shape_, head, body);
    if (!taken.ok()) co_return taken;
  } else {
    const LinkStatus written = co_await transmit(head, body);
    if (!written.ok()) co_return fail(written.error());
  }
  traffic_.sent += head.size() + body.size();
  total_->sent += head.size() + body.size();
  co_return Done{};
}

asio::awaitable<LinkStatus> Link::write_shaped(LinkShape shape, Bytes head, Bytes body) {
  if (!delay_) {
    delay_ = std::make_shared<DelayLine>(executor_);
    spawn(executor_, carry(weak_from_this(), delay_));
  }
  const auto line = delay_;
  const std::optional<Duration> late = line->draw_lateness(shape);
  if (!late) {
    co_await line->stand_still(line, DelayLine::kLossLimit);
    co_return fail(LinkErrorKind::timed_out, "the shaped link lost every retransmission");
  }
  for (const Bytes part : {head, body}) {
    const bool taken = co_await line->put(line, shape, part, *late);
    if (failure_) co_return *failure_;
    if (!taken) co_return LinkError{{"this end closed the connection"}, LinkErrorKind::closed};
  }
  co_return Done{};
}

// Transmits what has passed the delay line. Does not keep the link alive.
asio::awaitable<void> Link::carry(std::weak_ptr<Link> weak, std::shared_ptr<DelayLine> line) {
  for (;;) {
    const auto bytes = co_await line->take(line);
    const auto link = weak.lock();
    if (bytes.empty() || !link || link->failure_) co_return;
    link->carrying_ = true;
    const LinkStatus written = co_await link->transmit(bytes, {});
    link->carrying_ = false;
    if (!written.ok()) {
      static_cast<void>(link->fail(written.error()));
      co_return;
    }
    if (link->finishing_ && line->empty() && !link->failure_) link->shut_write();
  }
}

asio::awaitable<void> Link::drain(std::size_t at_most) {
  std::array<std::byte, 1024> dropped;
  for (std::size_t n = 0; n < at_most && !failure_; n += dropped.size()) {
    const auto received = co_await receive(dropped, {});
    if (!received.ok() || *received < dropped.size()) break;
  }
}

void Link::finish() {
  if (failure_) return;
  finishing_ = true;
  if (!delay_ || (delay_->empty() && !carrying_)) shut_write();
}

void Link::close() {
  if (!failure_) static_cast<void>(fail(LinkErrorKind::closed, "this end closed the connection"));
}

void Link::expires_after(Duration wait) {
  if (failure_) return;
  deadline_ = SteadyClock::now() + wait;
  if (!armed_ || deadline_ < timer_.expiry()) arm();
}

// An armed timer checks the deadline at its next expiry.
void Link::expires_never() { deadline_ = SteadyClock::time_point::max(); }

void Link::arm() {
  armed_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    if (error) return;
    if (const auto self = weak.lock()) self->at_deadline();
  });
}

void Link::at_deadline() {
  armed_ = false;
  if (failure_ || deadline_ == SteadyClock::time_point::max()) return;
  if (SteadyClock::now() < deadline_) {
    arm();
  } else {
    static_cast<void>(fail(LinkErrorKind::timed_out, "the remote took too long"));
  }
}

void Link::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  constexpr std::size_t kLeast = 4096;
  const std::size_t most = wire::kFrameHeaderBytes + wire::kChunkBodyBytesMax;
  const std::size_t capacity = std::max(bytes, std::min(most, std::max(kLeast, 2 * capacity_)));
  buffer_.reset(static_cast<std::byte*>(::operator new[](capacity, std::align_val_t{64})));
  capacity_ = capacity;
}

LinkError Link::fail(LinkErrorKind kind, std::string sentence) {
  return fail(LinkError{{std::move(sentence)}, kind});
}

LinkError Link::fail(const wire::FrameError& error) {
  return fail(kKinds.at(static_cast<std::size_t>(error.fault)), error.message);
}

LinkError Link::fail(const LinkError& error) {
  if (!failure_) {
    failure_ = error;
    timer_.cancel();
    if (delay_) delay_->close();
    shut();
  }
  return *failure_;
}

// ---- messages ----

asio::awaitable<LinkStatus> write_message(Link& link, wire::Message message) {
  const auto frame = wire::encode_frame(message);
  if (!frame.ok()) co_return LinkError{frame.error(), LinkErrorKind::oversize};
  co_return co_await link.write(*frame);
}

void write_prefix(const Link& link, const wire::ChunkHead& head, Bytes values,
                  std::span<std::byte, wire::kChunkPrefixBytes> prefix) {
  const auto checksum = link.authenticates() ? wire::Checksum::none : wire::Checksum::computed;
  wire::write_chunk_prefix(head, values, prefix, checksum);
}

asio::awaitable<LinkStatus> write_chunk(Link& link, wire::ChunkHead head, Bytes floats) {
  std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  write_prefix(link, head, floats, prefix);
  co_return co_await link.write(prefix, floats);
}

LinkResult<wire::Message> message_in(Link& link, const Frame& frame) {
  if (frame.kind != wire::FrameKind::control) {
    link.close();
    const bool relayed = frame.kind == wire::FrameKind::relayed;
    return LinkError{
        {relayed ? "relayed bytes where a message is expected" : "a chunk where a message is expected"},
        LinkErrorKind::malformed};
  }
  auto message = wire::decode_message(frame.body);
  if (!message.ok()) {
    link.close();
    return LinkError{message.error(), LinkErrorKind::malformed};
  }
  return std::move(*message);
}

asio::awaitable<LinkResult<wire::Message>> read_message(Link& link) {
  for (;;) {
    const auto frame = co_await link.read();
    if (!frame.ok()) co_return frame.error();
    if (frame->kind == wire::FrameKind::control) {
      auto message = wire::decode_message(frame->body);
      if (message.ok()) co_return std::move(*message);
      if (wire::is_later_message(frame->body)) continue;
    }
    co_return message_in(link, *frame);
  }
}

}  // namespace starling::transport
