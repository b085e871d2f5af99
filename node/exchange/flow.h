// How much of an exchange is on its way at once: the size of chunks and how many of them may be unanswered,
// learned from the replies of one partner. Sends, replies and the clock come in as arguments. The idea is that
// of BBR (Cardwell et al., ACM Queue 2016): the link's rate is the largest that replies came at lately, its
// delay the shortest that one took, and their product, a little enlarged, is what keeps the link full and its
// queues short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace starling::node {

struct FlowOptions {
  std::optional<std::size_t> chunk_cells;  // fixed, where set
  std::optional<std::size_t> window;       // fixed, where set: chunks
  std::size_t cell_bytes = 32 * 1024;      // of a cell as it travels, about
  std::size_t flight_bytes_max = std::size_t{16} << 20;  // on their way on one link at most
};

class Flow {
 public:
  explicit Flow(const FlowOptions& options) : options_(options) {}

  std::size_t chunk_cells() const { return options_.chunk_cells.value_or(chunk_cells_); }
  std::size_t window() const {  // chunks, at least 2
    return options_.window.value_or(probing_ ? kWindowMin : window_);
  }

  struct Sent {  // kept beside every chunk that is on its way
    Duration at{0};
    std::size_t bytes = 0;
    // As it was then: bytes that had been answered, when the last reply had come, when what it answered was sent.
    std::uint64_t answered = 0;
    Duration last_reply{0}, last_sent{0};
    bool alone = false;  // next to nothing was on its way before it
  };
  Sent sent(Duration now, std::size_t bytes);
  // A new exchange begins, with nothing on its way: what lies behind is no pause of the link.
  void begin() {
    rests_ = true;
    flying_ = 0;
  }
  // Its reply has come.
  void answered(Duration now, const Sent& sent);

  // Of the link, as far as is known: bytes a second of offers that were answered, and the shortest reply.
  double rate() const;
  Duration delay() const;

  static constexpr std::size_t kWindowMin = 2, kWindowMax = 256, kWindowAtFirst = 3;
  // Large enough that system calls and wake-ups cost little, small enough that two or three stay in the L2.
  static constexpr std::size_t kChunkCells = 8;
  // So long a chunk may take on a thin link, or others wait behind it.
  static constexpr Duration kChunkTimeMax = std::chrono::milliseconds(1);
  // A rate is believed for so long to twice that. A delay too: then the window closes for a moment, or queues
  // that this exchange itself has filled would pass for the link's delay.
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
  // Bytes a second, the most of the kMemory that runs, and of the one before.
  double rate_ = 0, rate_before_ = 0;
  std::optional<Duration> turned_;
  double delay_ = 0;  // seconds, the least; 0: none yet
  Duration delay_at_{0};
  bool probing_ = false;  // for the delay, with a window of two
};

}  // namespace starling::node
