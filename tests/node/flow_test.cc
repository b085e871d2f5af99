// Chunks and windows over links of known rate and delay, in computed time.
#include "node/exchange/flow.h"

#include <algorithm>
#include <deque>

#include "tests/catch.h"

namespace starling::node {
namespace {

constexpr std::size_t kCellBytes = 32 * 1024;

// A link that carries `rate` bytes a second and answers `delay` later.
struct Path {
  double rate;
  Duration delay;
};

struct Run {
  double rate = 0;  // bytes a second, answered
  std::size_t flight_most = 0;
};

// Exchanges back to back, from `from` to `to`.
Run drive(Flow& flow, const Path& path, Duration from, Duration to) {
  struct Flying {
    Duration back;
    Flow::Sent sent;
  };
  std::deque<Flying> flying;
  Duration now = from, free = from;
  std::size_t flight = 0;
  double answered = 0;
  Run run;
  flow.begin();
  while (now < to) {
    while (flying.size() < flow.window()) {
      const std::size_t bytes = flow.chunk_cells() * kCellBytes;
      free = std::max(free, now) + from_seconds(static_cast<double>(bytes) / path.rate);
      flying.push_back({free + path.delay, flow.sent(now, bytes)});
      flight += bytes;
      run.flight_most = std::max(run.flight_most, flight);
    }
    const Flying first = flying.front();
    flying.pop_front();
    now = first.back;
    flight -= first.sent.bytes;
    answered += static_cast<double>(first.sent.bytes);
    flow.answered(now, first.sent);
  }
  run.rate = answered / to_seconds(now - from);
  return run;
}

constexpr Duration ms(int n) { return std::chrono::milliseconds(n); }

}  // namespace

TEST_CASE("any link's rate is used to nine tenths after a second, with short queues") {
  for (const Path path :
       {Path{1.5e9, Duration{60'000}}, Path{1.25e8, ms(1)}, Path{1.25e8, ms(50)}, Path{1.25e7, ms(20)},
        Path{1.25e6, ms(5)}, Path{1.25e6, ms(200)}, Path{3e7, ms(300)}}) {
    CAPTURE(path.rate, path.delay.count());
    Flow flow({.chunk_cells = {}, .window = {}, .cell_bytes = kCellBytes});
    drive(flow, path, Duration{0}, ms(1500) + 5 * path.delay);
    drive(flow, path, ms(1500) + 5 * path.delay, ms(3000) + 10 * path.delay);
    const Run run = drive(flow, path, ms(4000) + 10 * path.delay, ms(8000) + 10 * path.delay);
    REQUIRE(run.rate > 0.9 * path.rate);
    // The bound: twice what the link holds, and the chunks that are being completed.
    const double holds = path.rate * to_seconds(path.delay);
    REQUIRE(static_cast<double>(run.flight_most) <
            2 * holds + 5.0 * static_cast<double>(flow.chunk_cells() * kCellBytes));
  }
}

TEST_CASE("slow links get single cells, fast ones several, long fast ones many, within a memory limit") {
  const auto after = [](const Path& path) {
    Flow flow({.chunk_cells = {}, .window = {}, .cell_bytes = kCellBytes});
    drive(flow, path, Duration{0}, ms(5000));
    return std::pair{flow.chunk_cells(), flow.window()};
  };
  REQUIRE(after({1.25e6, ms(10)}).first == 1);
  REQUIRE(after({1.25e9, ms(1)}).first == Flow::kChunkCells);
  const auto [cells, window] = after({1.25e9, ms(100)});
  REQUIRE(cells == Flow::kChunkCells);
  REQUIRE(window * cells * kCellBytes <= FlowOptions{}.flight_bytes_max);
  REQUIRE(window * cells * kCellBytes > FlowOptions{}.flight_bytes_max / 2);
}

TEST_CASE("a slower link is noticed within two memories, and a faster one at once") {
  Flow flow({.chunk_cells = {}, .window = {}, .cell_bytes = kCellBytes});
  drive(flow, {1.25e8, ms(20)}, Duration{0}, ms(2000));
  const std::size_t wide = flow.window();
  drive(flow, {1.25e6, ms(20)}, ms(2000), ms(26'000));
  REQUIRE(flow.window() < wide / 4);
  REQUIRE(flow.chunk_cells() == 1);
  const Run run = drive(flow, {1.25e8, ms(20)}, ms(26'000), ms(29'000));
  REQUIRE(run.rate > 0.5 * 1.25e8);
}

TEST_CASE("a fixed window and chunk size stay fixed") {
  Flow flow({.chunk_cells = 3, .window = 17, .cell_bytes = kCellBytes});
  drive(flow, {1.25e6, ms(200)}, Duration{0}, ms(5000));
  REQUIRE(flow.chunk_cells() == 3);
  REQUIRE(flow.window() == 17);
}

TEST_CASE("a clock that stands still does not count as a fast link") {
  Flow flow({});
  for (int i = 0; i < 100; ++i) flow.answered(ms(1), flow.sent(ms(1), 100));
  REQUIRE(flow.rate() == 0);
  REQUIRE(flow.window() == Flow::kWindowAtFirst);
}

}  // namespace starling::node
