// Links slower than the real ones: bytes leave at a bandwidth, arrive after a latency, and sometimes later,
// as if they had been lost and sent again. The sender shapes its direction of each connection, below the
// frames. TCP's own handshake is not shaped.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/time.h"
#include "transport/coroutines.h"

namespace starling::transport {

struct LinkShape {
  Duration latency{0};   // one way, in addition to the link's own
  double bandwidth = 0;  // bits per second; 0: unlimited
  double drop = 0;       // in [0, 1): chance of a write to be lost, each time that it is sent (wire/loss.h)

  bool plain() const { return latency == Duration{0} && bandwidth == 0 && drop == 0; }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// The shapes of one transport's links: one for all, and others for some remotes. Links share the values, so
// they see changes.
class LinkShapes {
 public:
  // For links whose remote is not known yet.
  std::shared_ptr<const LinkShape> to_anyone() const { return all_; }
  // For links to this listening address: the shape of set_to(), else of set_all().
  std::shared_ptr<const LinkShape> to(const Address& remote);

  void set_all(const LinkShape& shape);
  // From now on set_all() does not change these.
  void set_to(const Address& remote, const LinkShape& shape);

 private:
  struct Remote {
    std::shared_ptr<LinkShape> shape;
    bool own = false;  // set_to()
  };
  std::shared_ptr<LinkShape> all_ = std::make_shared<LinkShape>();
  std::map<Address, Remote> remotes_;  // with a shape of their own, or with links
};

// Computes when bytes leave and arrive; has no clock.
class LinkPacer {
 public:
  // When these bytes arrive as a whole. They begin to leave when those before them have left; `late`: the
  // delay of retransmissions.
  Duration arrival(const LinkShape& shape, Duration now, std::size_t bytes, Duration late = Duration{0});
  // When all bytes have left.
  Duration free() const { return free_; }

 private:
  Duration free_{Duration::min()};
  Duration last_arrival_{Duration::min()};  // keeps the order if the latency decreases
};

// The bytes in flight in one direction of one link: a queue of pieces with their times of arrival.
class DelayLine {
 public:
  explicit DelayLine(const asio::any_io_executor& executor) : wake_(executor), room_(executor) {}

  // Copies the bytes as soon as the shaped link could take them: at most kBacklog of sending time and
  // kBytesMax in all wait. False: closed meanwhile. REQUIRES: `shape` outlives the call.
  asio::awaitable<bool> put(std::shared_ptr<DelayLine> self, const LinkShape& shape, Bytes bytes,
                            Duration late);
  // Draws the delay of the next put() by retransmissions; nullopt: longer than kLossLimit.
  std::optional<Duration> draw_lateness(const LinkShape& shape);
  // Returns after this time, or when it is closed.
  asio::awaitable<void> stand_still(std::shared_ptr<DelayLine> self, Duration time);
  // Waits for the arrival of the next bytes and returns them; empty: closed.
  asio::awaitable<std::vector<std::byte>> take(std::shared_ptr<DelayLine> self);
  void close();
  bool empty() const { return pieces_.empty(); }

  static constexpr Duration kBacklog = std::chrono::milliseconds(20);
  static constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kPieceMax = std::size_t{64} << 10;
  static constexpr Duration kPieceTime = std::chrono::milliseconds(2);  // of a slow link's pieces
  static constexpr Duration kLossLimit = std::chrono::seconds(10);      // TcpOptions::silence_limit

 private:
  using Clock = std::chrono::steady_clock;
  static Duration now() { return Clock::now().time_since_epoch(); }

  struct Piece {
    Duration arrives;
    std::vector<std::byte> bytes;
  };

  LinkPacer pacer_;
  Random losses_{std::random_device{}()};
  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  Signal wake_;  // a piece was put in, or it is closed
  Signal room_;  // a piece was taken, or it is closed
};

}  // namespace starling::transport
