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
  std::size_t window() const { return options_.window.value_or(window_); }  // chunks, at least 2

  struct Sent {  // kept beside every chunk that is on its way
    Duration at{0};
    std::uint64_t answered = 0;  // bytes, when it was sent
    std::size_t bytes = 0;
  };
  Sent sent(Duration now, std::size_t bytes) const { return {now, answered_, bytes}; }
  // Its reply has come.
  void answered(Duration now, const Sent& sent);

  // Of the link, as far as is known: bytes a second of offers that were answered, and the shortest reply.
  double rate() const;
  Duration delay() const;

  static constexpr std::size_t kWindowMin = 2, kWindowMax = 256, kWindowAtFirst = 3;
  static constexpr std::size_t kChunkCells = 4, kChunkCellsMax = 8;
  // So long a chunk may take on a thin link, or others wait behind it.
  static constexpr Duration kChunkTimeMax = std::chrono::milliseconds(4);
  // A delay or a rate is believed for so long.
  static constexpr Duration kMemory = std::chrono::seconds(10);

 private:
  void adapt();

  // The extreme of the last one to two kMemory: of the half that runs, and of the one before.
  struct Extreme {
    double now = 0, before = 0;  // 0: none yet
  };
  void turn(Duration now);

  FlowOptions options_;
  std::size_t chunk_cells_ = kChunkCells;
  std::size_t window_ = kWindowAtFirst;
  std::uint64_t answered_ = 0;  // bytes
  Extreme rate_, delay_;        // bytes a second; seconds
  std::optional<Duration> turned_;
};

}  // namespace starling::node
