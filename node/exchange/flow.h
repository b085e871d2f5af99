// Flow control of exchanges with one partner: the size of chunks and the number of unanswered ones, learned
// from the partner's replies. The clock is an argument. The method is BBR's (Cardwell et al., ACM Queue
// 2016): the link's rate is the largest recent rate of replies, its delay the shortest time of a reply, and
// slightly more than their product in flight keeps the link full and its queues short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace starling::node {

struct FlowOptions {
  std::optional<std::size_t> chunk_cells{};              // fixed if set
  std::optional<std::size_t> window{};                   // chunks; fixed if set
  std::size_t cell_bytes = 32 * 1024;                    // an encoded cell, approximately
  std::size_t flight_bytes_max = std::size_t{16} << 20;  // in flight on one link
};

class Flow {
 public:
  explicit Flow(const FlowOptions& options) : options_(options) {}

  std::size_t chunk_cells() const { return options_.chunk_cells.value_or(chunk_cells_); }
  std::size_t window() const {  // chunks, at least 2
    return options_.window.value_or(probing_ ? kWindowMin : window_);
  }

  struct Sent {  // kept for every chunk in flight
    Duration at{0};
    std::size_t bytes = 0;
    // At that time: the bytes answered, the instant of the last reply, and when its chunk was sent.
    std::uint64_t answered = 0;
    Duration last_reply{0}, last_sent{0};
    bool alone = false;  // fewer than kWindowMin chunks were in flight before it
  };
  Sent sent(Duration now, std::size_t bytes);
  // A new exchange begins with nothing in flight: the time since the last one is not the link's delay.
  void begin() {
    rests_ = true;
    flying_ = 0;
  }
  // The reply to this chunk has arrived.
  void answered(Duration now, const Sent& sent);

  // Estimates of the link: bytes of answered offers per second, and the shortest time of a reply.
  double rate() const { return std::max(rate_, rate_before_); }
  Duration delay() const { return from_seconds(delay_); }

  static constexpr std::size_t kWindowMin = 2, kWindowMax = 256, kWindowAtFirst = 3;
  // Large enough that system calls and wake-ups cost little, small enough that two or three stay in the L2
  // cache.
  static constexpr std::size_t kChunkCells = 8;
  // The longest time of a chunk on a slow link: other frames wait behind it.
  static constexpr Duration kChunkTimeMax = std::chrono::milliseconds(1);
  // An estimate of the rate or the delay is used for one to two times this. To measure the delay again, the
  // window closes for a moment: otherwise queues that this exchange has filled would count as delay.
  static constexpr Duration kMemory = std::chrono::seconds(10);

 private:
  void adapt();
  void turn(Duration now);

  FlowOptions options_;
  std::size_t chunk_cells_ = kChunkCells;
  std::size_t window_ = kWindowAtFirst;
  std::uint64_t answered_ = 0;  // bytes
  Duration last_reply_{0}, last_sent_{0};
  bool rests_ = true;
  std::size_t flying_ = 0;  // chunks
  // Bytes per second: the largest rate in the current kMemory, and in the one before.
  double rate_ = 0, rate_before_ = 0;
  std::optional<Duration> turned_;
  double delay_ = 0;  // seconds; 0: not measured yet
  Duration delay_at_{0};
  bool probing_ = false;  // measures the delay, with a window of two
};

}  // namespace starling::node
