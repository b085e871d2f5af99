// A slower link than the real one: what is written leaves at a bandwidth and arrives after a latency. Shaped at
// the sender, below the frames, so that everything above meets the link that was asked for. Each end shapes its
// own direction of each connection.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "base/bytes.h"
#include "base/time.h"
#include "transport/signal.h"

namespace starling::transport {

struct LinkShape {
  Duration latency{0};   // one way, in addition to the link's own
  double bandwidth = 0;  // bits per second; 0: as fast as it goes

  bool plain() const { return latency == Duration{0} && bandwidth == 0; }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// When bytes leave and arrive: arithmetic, no clock.
class LinkPacer {
 public:
  // They begin to leave when those before them have left, and arrive as a whole.
  Duration arrival(const LinkShape& shape, Duration now, std::size_t bytes);
  // When all that was asked for has left.
  Duration free() const { return free_; }

 private:
  Duration free_{Duration::min()};
  Duration last_arrival_{Duration::min()};  // order is kept where the latency shrinks
};

// What is on its way on one direction of one link: a queue of pieces, each with its moment.
class DelayLine {
 public:
  explicit DelayLine(const asio::any_io_executor& executor) : wake_(executor), room_(executor) {}

  // Takes a copy of the bytes as soon as the shaped link could take them: at most kBacklog of sending, and
  // kBytesMax in all, wait. False: closed meanwhile.
  asio::awaitable<bool> put(std::shared_ptr<DelayLine> self, const LinkShape& shape, Bytes bytes);
  // The next bytes, once they have arrived; empty: closed.
  asio::awaitable<std::vector<std::byte>> take(std::shared_ptr<DelayLine> self);
  void close();
  bool empty() const { return pieces_.empty(); }

  static constexpr Duration kBacklog = std::chrono::milliseconds(20);
  static constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kPieceMax = std::size_t{64} << 10;
  static constexpr Duration kPieceTime = std::chrono::milliseconds(2);  // of a slow link's pieces

 private:
  using Clock = std::chrono::steady_clock;
  static Duration now() { return Clock::now().time_since_epoch(); }

  struct Piece {
    Duration arrives;
    std::vector<std::byte> bytes;
  };

  LinkPacer pacer_;
  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  Signal wake_;  // a piece came, or it is closed
  Signal room_;  // a piece went, or it is closed
};

}  // namespace starling::transport
