#include "gossip/meeting/pacing.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

TEST_CASE("with a pace in steps, an exchange is due that number of steps after the last") {
  Pacer pacer(Pace{Pace::Kind::steps, 8, {}}, Random(1));
  pacer.taken(at(0s), 100);
  REQUIRE_FALSE(pacer.due(at(99s), 107));
  REQUIRE(pacer.due(at(99s), 108));
  pacer.taken(at(99s), 130);  // late; missed exchanges are not repeated
  REQUIRE_FALSE(pacer.due(at(100s), 137));
  REQUIRE(pacer.due(at(100s), 138));
  REQUIRE(pacer.next_deadline(at(99s)) == kNever);
}

TEST_CASE("with a pace in time, an exchange is due that time after the last") {
  Pacer pacer(Pace{Pace::Kind::time, 0, 200ms}, Random(1));
  pacer.taken(at(1s), 0);
  REQUIRE_FALSE(pacer.due(at(1199ms), 1000));
  REQUIRE(pacer.next_deadline(at(1s)) == at(1200ms));
  REQUIRE(pacer.due(at(1200ms), 0));
  pacer.taken(at(1900ms), 0);
  REQUIRE_FALSE(pacer.due(at(2s), 0));
  REQUIRE(pacer.next_deadline(at(2s)) == at(2100ms));
}

TEST_CASE("with a Poisson clock, the intervals between exchanges have the given mean and deviation") {
  Pacer pacer(Pace{Pace::Kind::poisson, 0, 200ms}, Random(1));
  pacer.taken(at(0s), 0);
  Instant now = at(0s);
  double sum = 0, squares = 0;
  constexpr int kTimes = 20'000;
  for (int k = 0; k < kTimes; ++k) {
    const Instant next = pacer.next_deadline(now);
    REQUIRE(next >= now);
    REQUIRE((next == now || !pacer.due(next - Duration{1}, 0)));
    REQUIRE(pacer.due(next, 0));
    const double gap = to_seconds(next - now);
    sum += gap;
    squares += gap * gap;
    now = next;
    pacer.taken(now, 0);
  }
  const double mean = sum / kTimes;
  REQUIRE(std::abs(mean - 0.2) < 0.005);
  REQUIRE(std::abs(std::sqrt(squares / kTimes - mean * mean) - 0.2) < 0.008);
}

TEST_CASE("with the pace always, an exchange is always due") {
  Pacer pacer(Pace{Pace::Kind::always, 0, {}}, Random(1));
  pacer.taken(at(0s), 0);
  REQUIRE(pacer.due(at(0s), 0));
  pacer.taken(at(0s), 0);
  REQUIRE(pacer.due(at(0s), 0));
}

TEST_CASE("after a failed exchange the pacer pauses, and its deadline is the end of the pause") {
  for (const Pace pace :
       {Pace{Pace::Kind::always, 0, {}}, Pace{Pace::Kind::steps, 1, {}}, Pace{Pace::Kind::time, 0, 1ms}}) {
    Pacer pacer(pace, Random(1));
    pacer.taken(at(0s), 0);
    pacer.hold_off(at(1s), 20ms);
    REQUIRE_FALSE(pacer.due(at(1019ms), 50));
    REQUIRE(pacer.next_deadline(at(1s)) == at(1020ms));
    REQUIRE(pacer.due(at(1020ms), 50));
  }
}

}  // namespace starling::gossip
