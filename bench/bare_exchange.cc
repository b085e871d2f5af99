#include "bench/bare_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "training/mixing/values.h"
#include "wire/frame.h"

namespace starling::bench {
namespace {

constexpr std::size_t kPrefixFloats = wire::kChunkPrefixBytes / sizeof(float);

// A frame on the wire: the prefix followed by the floats.
struct Slot {
  explicit Slot(std::size_t chunk_floats)
      : bytes(static_cast<float*>(std::aligned_alloc(64, (chunk_floats + 2 * kPrefixFloats) / 16 * 64)),
              &std::free) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(bytes.get()); }
  std::span<float> floats(std::size_t n) { return {bytes.get() + kPrefixFloats, n}; }
  std::unique_ptr<float, decltype(&std::free)> bytes;
};

}  // namespace

class BareExchange::Side {
 public:
  Side(int socket, models::Arena& arena, bool initiator, const BareOptions& options)
      : socket_(socket),
        arena_(arena),
        initiator_(initiator),
        options_(options),
        chunks_((arena.size() + options.chunk_floats - 1) / options.chunk_floats),
        in_(options.chunk_floats) {
    for (std::size_t i = 0; i < options.window; ++i) {
      slots_.emplace_back(options.chunk_floats);
      for (float& value : slots_.back().floats(options.chunk_floats)) value = 1;
    }
  }

  void exchange() {
    sent_ = received_ = 0;
    while (received_ < chunks_ || sent_ < chunks_) {
      bool moved = false;
      while (send_some()) moved = true;
      while (receive_some()) moved = true;
      if (moved) continue;
      pollfd waits{socket_,
                   static_cast<short>((received_ < chunks_ ? POLLIN : 0) | (may_send() ? POLLOUT : 0)), 0};
      ::poll(&waits, 1, -1);
    }
  }

 private:
  std::size_t floats(std::size_t chunk) const {
    return std::min(options_.chunk_floats, arena_.size() - chunk * options_.chunk_floats);
  }
  std::size_t frame_bytes(std::size_t chunk) const {
    return wire::kChunkPrefixBytes + floats(chunk) * sizeof(float);
  }
  // The initiator sends up to a window ahead of the replies; the responder answers what has arrived.
  bool may_send() const {
    return sent_ < chunks_ && (initiator_ ? sent_ < received_ + options_.window : sent_ < received_);
  }

  bool send_some() {
    if (!may_send()) return false;
    Slot& slot = slots_[sent_ % options_.window];
    const auto values = slot.floats(floats(sent_));
    if (sent_bytes_ == 0) {
      if (initiator_ && options_.stage >= Stage::mix) arena_.read(sent_ * options_.chunk_floats, values);
      if (options_.stage >= Stage::checksum) {
        wire::ChunkHead head;
        head.offset = sent_ * options_.chunk_floats;
        head.floats = static_cast<std::uint32_t>(values.size());
        wire::write_chunk_prefix(
            head, std::as_bytes(values),
            std::span<std::byte, wire::kChunkPrefixBytes>(slot.data(), wire::kChunkPrefixBytes));
      }
    }
    const std::size_t all = frame_bytes(sent_);
    const auto n = ::send(socket_, slot.data() + sent_bytes_, all - sent_bytes_, MSG_NOSIGNAL);
    if (n <= 0) return blocked(n);
    sent_bytes_ += static_cast<std::size_t>(n);
    if (sent_bytes_ < all) return false;
    sent_bytes_ = 0;
    ++sent_;
    return true;
  }

  bool receive_some() {
    // A reply needs a slot whose chunk has been sent.
    if (received_ == chunks_ || (!initiator_ && received_ - sent_ >= options_.window)) return false;
    const std::size_t all = frame_bytes(received_);
    const auto n = ::recv(socket_, in_.data() + received_bytes_, all - received_bytes_, 0);
    if (n <= 0) return blocked(n);
    received_bytes_ += static_cast<std::size_t>(n);
    if (received_bytes_ < all) return false;
    received_bytes_ = 0;
    take(in_.floats(floats(received_)));
    ++received_;
    return true;
  }

  void take(std::span<float> theirs) {
    if (options_.stage >= Stage::checksum) {
      const std::span<const std::byte, wire::kChunkPrefixBytes> prefix(in_.data(), wire::kChunkPrefixBytes);
      const auto header = wire::FrameHeader::parse(prefix.first<wire::kFrameHeaderBytes>());
      if (!header || wire::chunk_checksum(prefix, std::as_bytes(theirs)) != header->checksum)
        fail("wrong checksum");
    }
    if (options_.stage >= Stage::check && !training::all_acceptable(theirs)) fail("unacceptable value");
    if (options_.stage < Stage::mix) return;
    const auto own = slots_[received_ % options_.window].floats(theirs.size());
    const std::size_t offset = received_ * options_.chunk_floats;
    if (initiator_) {
      arena_.mix(offset, theirs, own, 0.5F);
    } else {
      arena_.read(offset, own);
      arena_.mix(offset, theirs, own, 0.5F);
    }
  }

  bool blocked(ssize_t n) {
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) fail("connection broken");
    return false;
  }
  [[noreturn]] static void fail(const char* why) {
    std::fprintf(stderr, "exchange_bench: %s\n", why);
    std::exit(1);
  }

  int socket_;
  models::Arena& arena_;
  bool initiator_;
  BareOptions options_;
  std::size_t chunks_;
  std::size_t sent_ = 0, sent_bytes_ = 0, received_ = 0, received_bytes_ = 0;
  Slot in_;
  std::vector<Slot> slots_;
};

const char* name(Stage stage) {
  switch (stage) {
    case Stage::wire:
      return "wire alone";
    case Stage::checksum:
      return "+ checksum";
    case Stage::check:
      return "+ check";
    case Stage::mix:
      return "+ mix";
  }
  return "";
}

BareExchange::BareExchange(int socket, models::Arena& arena, bool initiator, const BareOptions& options)
    : side_(std::make_unique<Side>(socket, arena, initiator, options)) {}

BareExchange::~BareExchange() = default;

void BareExchange::run() { side_->exchange(); }

}  // namespace starling::bench
