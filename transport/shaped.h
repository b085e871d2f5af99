// A slower link than the real one: what is written leaves at a bandwidth, arrives after a latency, and now
// and then later, as if it had been lost. Shaped at the sender, below the frames, so that everything above
// meets the link that was asked for. Each end shapes its own direction of each connection. How a connection
// is made (TCP's own handshake) is not shaped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/time.h"
#include "transport/signal.h"

namespace starling::transport {

struct LinkShape {
  Duration latency{0};   // one way, in addition to the link's own
  double bandwidth = 0;  // bits per second; 0: as fast as it goes
  double drop = 0;       // in [0, 1): chance of a write to get lost, each time it is sent (base/loss.h)

  bool plain() const { return latency == Duration{0} && bandwidth == 0 && drop == 0; }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// What the links of one transport are like: all the same, but for those to some remotes. Links hold what they
// are given here and see it change.
class LinkShapes {
 public:
  // Of links whose remote is not known yet.
  std::shared_ptr<const LinkShape> to_anyone() const { return all_; }
  // Of those to whoever listens there: what set_to() said, else what set_all() did.
  std::shared_ptr<const LinkShape> to(const Address& remote);

  void set_all(const LinkShape& shape);
  // From now on set_all() does not reach these.
  void set_to(const Address& remote, const LinkShape& shape);

 private:
  struct Remote {
    std::shared_ptr<LinkShape> shape;
    bool own = false;  // set_to()
  };
  std::shared_ptr<LinkShape> all_ = std::make_shared<LinkShape>();
  std::map<Address, Remote> remotes_;  // with a shape of their own, or with links
};

// When bytes leave and arrive: arithmetic, no clock.
class LinkPacer {
 public:
  // They begin to leave when those before them have left, and arrive as a whole, `late` if they were lost at
  // first.
  Duration arrival(const LinkShape& shape, Duration now, std::size_t bytes, Duration late = Duration{0});
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
  // kBytesMax in all, wait. False: closed meanwhile. REQUIRES: `shape` outlives the call.
  asio::awaitable<bool> put(std::shared_ptr<DelayLine> self, const LinkShape& shape, Bytes bytes,
                            Duration late);
  // How late what is put next will be; nullopt: it is lost again and again, for longer than kLossLimit.
  std::optional<Duration> draw_lateness(const LinkShape& shape);
  // Returns after so long, or when it is closed.
  asio::awaitable<void> stand_still(std::shared_ptr<DelayLine> self, Duration time);
  // The next bytes, once they have arrived; empty: closed.
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
  Signal wake_;  // a piece came, or it is closed
  Signal room_;  // for the writer: a piece went, or it is closed
};

}  // namespace starling::transport
