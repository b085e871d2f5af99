// A Link is an ordered, reliable stream of frames with one remote: the seam between the daemon and its
// connections. A transport (tcp.h, plain or with TLS) only moves bytes; framing, limits and checksums are
// checked here. A Link lives on one single-threaded executor, so there are no locks. At most one read and one
// write may be pending at a time. A coroutine that uses a Link holds a LinkPtr. After an error the link is
// closed and every later operation returns that error. Steady reading and writing allocates nothing: the
// receive buffer belongs to the link and grows to at most one frame (1 MiB and 64 bytes).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/links/link_error.h"
#include "transport/links/shaped.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace starling::transport {

// The result of a read. Its bytes are in the link's buffer; the reader may change them until the next read. A
// control body is aligned to 8 bytes, a chunk's floats to 64.
struct Frame {
  wire::FrameKind kind = wire::FrameKind::control;
  wire::ChunkHead chunk;  // of a chunk
  // The message's FlatBuffer (wire::decode_message), the chunk's floats, or the bytes of a relayed frame.
  MutableBytes body;
};

struct Traffic {  // bytes of frames, including headers, without the overhead of TLS
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  virtual ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // The next frame, with a valid header and, unless the link authenticates(), a valid checksum, and the head
  // of a chunk parsed.
  asio::awaitable<LinkResult<Frame>> read();

  // Writes `head`, then `body`, without copying them: one or several complete frames, such as
  // wire::encode_frame's or a chunk's 64-byte prefix and its floats. Both must stay unchanged until it
  // returns.
  asio::awaitable<LinkStatus> write(Bytes head, Bytes body = {});

  // Closes this direction: after all that was written the remote reads closed_by_peer. It may still write.
  // REQUIRES: no pending write.
  void finish();

  // Whether the remote has closed its direction or the connection is broken, even if there are bytes left to
  // read. Does not wait.
  bool hung_up() const { return failure_ || read_failure_ || remote_ended(); }

  // Whether not one byte of the remote has arrived yet, as far as the kernel knows. Does not wait.
  bool is_silent() const { return traffic_.received == 0 && !has_received(); }

  // Reads and drops up to `at_most` bytes until the remote closes its direction: closing a connection with
  // unread bytes would discard what was just written.
  asio::awaitable<void> drain(std::size_t at_most);

  // Closes both directions at once; pending operations return `closed`. Harmless when repeated.
  void close();

  // Closes the link with `timed_out` after `wait`, unless it is called again or canceled before. Cheap enough
  // to call at every sign of progress.
  void expires_after(Duration wait);
  void expires_never();

  // Rejects larger bodies as `oversize` from now on, in addition to the protocol's limits.
  void limit_body(std::size_t bytes) { body_bytes_max_ = bytes; }

  // A circuit is open from now on: relayed frames are accepted, which are malformed before, and the end of
  // the remote's direction does not close this link, so the other direction continues.
  void accept_relayed() { accepts_relayed_ = true; }

  // Shapes what is written from now on; it stays in order behind what was written before.
  void travel_as(std::shared_ptr<const LinkShape> shape) { shape_ = std::move(shape); }

  // Whether its key is not one of the swarm's any more: it should end after the present exchange or message.
  virtual bool is_outdated() const { return false; }

  // Whether the bytes that arrive are known to be those that the remote wrote, so frames need no checksum.
  virtual bool authenticates() const { return false; }

  // Bytes that only the two ends of this connection know and that no other connection has. Empty if it is not
  // encrypted. REQUIRES: a frame has been read or written.
  virtual std::vector<std::byte> channel_binding() const { return {}; }

  bool is_open() const { return !failure_ && !read_failure_; }
  // The connection's remote end; a dialer does not listen at this port.
  const Address& remote() const { return remote_; }
  const Traffic& traffic() const { return traffic_; }
  const asio::any_io_executor& executor() const { return executor_; }

 protected:
  // `total` counts the bytes of all links of the transport; `shape` applies until travel_as().
  Link(asio::any_io_executor executor, Address remote, std::shared_ptr<Traffic> total,
       std::shared_ptr<const LinkShape> shape);

  // Fills `wanted` completely, and `spare` as far as more bytes have arrived; returns the number of bytes
  // placed. Fewer than wanted.size(): the remote ended its direction.
  virtual asio::awaitable<LinkResult<std::size_t>> receive(MutableBytes wanted, MutableBytes spare) = 0;
  virtual asio::awaitable<LinkStatus> transmit(Bytes head, Bytes body) = 0;
  virtual void shut_write() = 0;
  virtual bool remote_ended() const = 0;
  // Whether a byte of the remote has arrived, even if no read has returned it.
  virtual bool has_received() const = 0;
  virtual void shut() = 0;

 private:
  struct AlignedDelete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };

  asio::awaitable<LinkStatus> fill(MutableBytes wanted, MutableBytes spare, std::size_t& placed,
                                   bool frame_begun);
  asio::awaitable<LinkStatus> write_shaped(LinkShape shape, Bytes head, Bytes body);
  static asio::awaitable<void> carry(std::weak_ptr<Link> link, std::shared_ptr<DelayLine> line);
  void reserve(std::size_t bytes);
  LinkError fail(LinkErrorKind kind, std::string sentence);
  LinkError fail(const LinkError& error);
  LinkError fail(const wire::FrameError& error);
  void arm();
  void at_deadline();

  asio::any_io_executor executor_;
  Address remote_;
  std::shared_ptr<Traffic> total_;
  Traffic traffic_;
  std::optional<LinkError> failure_;       // the link is closed
  std::optional<LinkError> read_failure_;  // nothing more can be read, but the link is still open
  std::shared_ptr<const LinkShape> shape_;
  std::shared_ptr<DelayLine> delay_;  // from the first write on a shaped link on
  bool carrying_ = false;             // bytes have arrived at its end and are being transmitted
  bool finishing_ = false;            // nothing more will be put in
  std::size_t body_bytes_max_ = wire::kChunkBodyBytesMax;
  bool accepts_relayed_ = false;

  std::unique_ptr<std::byte[], AlignedDelete> buffer_;  // one frame, header first
  std::size_t capacity_ = 0;
  // The part of the next frame's header that arrived with the last body.
  std::array<std::byte, wire::kFrameHeaderBytes> ahead_{};
  std::size_t ahead_bytes_ = 0;

  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  bool armed_ = false;
};

using LinkPtr = std::shared_ptr<Link>;

// ---- messages and chunks on a link ----

// REQUIRES: `link` outlives the call (hold its LinkPtr).
asio::awaitable<LinkStatus> write_message(Link& link, wire::Message message);

// The frame header and the head of a chunk on this link, like wire::write_chunk_prefix.
void write_prefix(const Link& link, const wire::ChunkHead& head, Bytes values,
                  std::span<std::byte, wire::kChunkPrefixBytes> prefix);

// `floats` must stay valid until it returns. REQUIRES: head.floats * 4 == floats.size() <= 1 MiB.
asio::awaitable<LinkStatus> write_chunk(Link& link, wire::ChunkHead head, Bytes floats);

// The message in a control frame. If the frame is a chunk or does not decode, the error is `malformed` and
// the link is closed.
LinkResult<wire::Message> message_in(Link& link, const Frame& frame);

// The next frame, which must be a message.
asio::awaitable<LinkResult<wire::Message>> read_message(Link& link);

}  // namespace starling::transport
