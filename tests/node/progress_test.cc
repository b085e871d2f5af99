#include "node/peer/progress.h"

#include "tests/catch.h"

namespace starling::node {

using namespace std::chrono_literals;
using Clock = RunProgress::Clock;

TEST_CASE("a peer says when its run ends, or that it has no end") {
  training::EndSettings end;
  REQUIRE(ends_after(end).empty());
  end.epochs = 2.5;
  REQUIRE(ends_after(end) == "2.5 epochs of the swarm");
  end.steps = 100;
  end.seconds = 90s;
  REQUIRE(ends_after(end) == "2.5 epochs of the swarm or 100 steps of this peer or 90s since the run began");
}

TEST_CASE("progress has the epochs, and the time to the nearest limit at the mean speed") {
  const Clock::time_point start = Clock::now();
  RunProgress progress;
  training::EndSettings end;
  end.epochs = 10;
  REQUIRE(progress.text(end, 1000, {start, 500, 3}) == "0.5 of 10 epochs");  // before training begins
  progress.begin(start, 1000, 0);
  REQUIRE(progress.text(end, 1000, {start + 10s, 1000, 0}) == "1.0 of 10 epochs");  // no speed yet
  REQUIRE(progress.text(end, 1000, {start + 10s, 2000, 50}) == "2.0 of 10 epochs, about 80 s left");
  REQUIRE(progress.text({}, 0, {start + 10s, 2000, 50}) == "2000 samples");  // of a trainer without epochs
  end.steps = 100;
  REQUIRE(progress.text(end, 1000, {start + 10s, 2000, 50}) ==
          "2.0 of 10 epochs, 50 of 100 steps, about 10 s left");
  REQUIRE(progress.seconds_left(end, 1000, {start + 10s, 20'000, 50}) == 0.0);  // already beyond
  REQUIRE(progress.text({}, 1000, {start + 10s, 2000, 50}) == "2.0 epochs");
}

}  // namespace starling::node
