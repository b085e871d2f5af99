// A cable between two peers, over either transport. It forwards frames in both directions up to a limit that
// the test sets, counts the frames that arrive, and can be cut, also in the middle of a frame. A peer that
// dials the cable's address reaches the peer behind it; `up` is the direction away from the dialer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/node/test_peer.h"
#include "wire/codec.h"

namespace starling::node::testing {

// The encoded bytes of a frame.
inline std::vector<std::byte> bytes_of(const transport::Frame& frame) {
  if (frame.kind == wire::FrameKind::control)
    return wire::encode_frame(wire::decode_message(frame.body).value()).value();
  std::vector<std::byte> bytes(wire::kChunkPrefixBytes + frame.body.size());
  wire::write_chunk_prefix(frame.chunk, frame.body, std::span(bytes).first<wire::kChunkPrefixBytes>());
  std::copy(frame.body.begin(), frame.body.end(), bytes.begin() + wire::kChunkPrefixBytes);
  return bytes;
}

class Cable {
 public:
  static constexpr std::size_t kAll = SIZE_MAX;
  enum class End : std::uint8_t { dialer, listener };

  // What passes in one direction of a connection, counted from its start and including the handshake frame.
  struct Limit {
    std::size_t frames = kAll;
    std::size_t bytes = 0;  // of the next frame, at most all but its last byte
    bool reads_on = true;   // later frames are read and dropped; if false they are not read
  };
  struct Limits {
    Limit up, down;
  };

  Cable(World& world, const Address& to) : wiring_(std::make_shared<Wiring>()) {
    wiring_->links = &world.transport();
    wiring_->to = to;
    auto listening =
        wiring_->links->listen(transport::testing::anywhere(), [wiring = wiring_](LinkPtr dialer) {
          const auto executor = dialer->executor();
          transport::spawn(executor, connect(wiring, std::move(dialer)));
        });
    REQUIRE(listening.ok());
    listener_ = std::move(*listening);
  }
  ~Cable() {
    listener_->close();
    cut();
  }
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  const Address& address() const { return listener_->address(); }

  // Limits the next connection, or the current one. Later connections have no limit.
  void limit_next(const Limits& limits) { wiring_->next = limits; }
  void limit(const Limits& limits) { wire().limits = limits; }

  // Counts of the latest connection: frames that arrived, and frames that were forwarded complete.
  std::size_t came_up() const { return wire().up.came; }
  std::size_t came_down() const { return wire().down.came; }
  std::size_t passed_up() const { return wire().up.passed; }
  std::size_t passed_down() const { return wire().down.passed; }
  // The part of a frame that the limit admits has been sent.
  bool broken_up() const { return wire().up.broken; }
  bool broken_down() const { return wire().down.broken; }
  std::size_t connections() const { return wiring_->connections; }

  // Closes one end of the latest connection, without notice to the other end yet; or closes both ends.
  void cut(End end) {
    if (!wiring_->wire) return;
    wiring_->wire->cut = true;
    const LinkPtr& link = end == End::dialer ? wiring_->wire->dialer : wiring_->wire->listener;
    if (link) link->close();
  }
  void cut() {
    cut(End::dialer);
    cut(End::listener);
  }
  // Closes both ends of the connection before the latest.
  void cut_before() {
    if (!wiring_->before) return;
    wiring_->before->cut = true;
    wiring_->before->dialer->close();
    if (wiring_->before->listener) wiring_->before->listener->close();
  }

 private:
  struct Way {
    std::size_t came = 0, passed = 0;
    bool broken = false;
  };
  struct Wire {
    LinkPtr dialer, listener;
    Limits limits;
    Way up, down;
    bool cut = false;
  };
  using WirePtr = std::shared_ptr<Wire>;
  struct Wiring {
    transport::Transport* links = nullptr;
    Address to;
    Limits next;
    WirePtr wire, before;  // the latest two
    std::size_t connections = 0;
  };

  Wire& wire() const {
    static Wire none;
    return wiring_->wire ? *wiring_->wire : none;
  }

  static asio::awaitable<void> connect(std::shared_ptr<Wiring> wiring, LinkPtr dialer) {
    const auto executor = dialer->executor();
    wiring->before = wiring->wire;
    const auto wire = wiring->wire = std::make_shared<Wire>();
    wire->dialer = std::move(dialer);
    wire->limits = std::exchange(wiring->next, Limits{});
    ++wiring->connections;
    auto dialed = co_await wiring->links->dial(wiring->to, transport::testing::kLong);
    if (!dialed || wire->cut) {
      if (dialed) (*dialed)->close();
      wire->dialer->close();
      co_return;
    }
    wire->listener = *dialed;
    transport::spawn(executor, carry(wire, wire->dialer, wire->listener, &Wire::up, &Limits::up));
    transport::spawn(executor, carry(wire, wire->listener, wire->dialer, &Wire::down, &Limits::down));
  }

  static asio::awaitable<void> carry(WirePtr wire, LinkPtr from, LinkPtr to, Way Wire::*direction,
                                     Limit Limits::*limit_of) {
    Way& way = (*wire).*direction;
    for (;;) {
      auto frame = co_await from->read();
      if (!frame) break;
      ++way.came;
      const Limit& limit = wire->limits.*limit_of;
      if (way.passed >= limit.frames) {
        if (!way.broken && limit.bytes > 0) {
          auto bytes = bytes_of(*frame);
          bytes.resize(std::min(limit.bytes, bytes.size() - 1));
          way.broken = true;
          if (!(co_await to->write(bytes)).ok()) break;
        }
        if (!limit.reads_on) co_return;
        continue;
      }
      const auto bytes = bytes_of(*frame);
      if (!(co_await to->write(bytes)).ok()) break;
      ++way.passed;
    }
    if (!wire->cut) to->close();
  }

  std::shared_ptr<Wiring> wiring_;
  std::unique_ptr<transport::Listener> listener_;
};

}  // namespace starling::node::testing
