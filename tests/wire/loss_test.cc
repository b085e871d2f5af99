#include "wire/loss.h"

#include <cmath>
#include <map>

#include "tests/catch.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

TEST_CASE("lost data is retransmitted after 200 ms, 400 ms, 800 ms...") {
  constexpr double kDrop = 0.3;
  constexpr int kTimes = 100'000;
  Random random(1);
  std::map<Duration, int> seen;
  for (int i = 0; i < kTimes; ++i) ++seen[resent_after(kDrop, 1ms, 10s, random)];
  double expected = kTimes * (1 - kDrop);  // geometric distribution
  for (const Duration late : {0ms, 200ms, 600ms, 1400ms, 3000ms}) {
    INFO(late.count());
    REQUIRE(std::abs(seen[late] - expected) < 5 * std::sqrt(expected));
    seen.erase(late);
    expected *= kDrop;
  }
  for (const auto& [late, count] : seen)
    REQUIRE((late == 6200ms || late == 12600ms));  // stopped after the last retransmission
}

TEST_CASE("with a long latency the timeout is two round trips") {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const Duration late = resent_after(0.2, 100ms, 1s, random);
    REQUIRE((late == 0ms || late == 400ms || late == 1200ms));
  }
}

TEST_CASE("without loss no random number is drawn") {
  Random random(3), twin(3);
  REQUIRE(resent_after(0, 1s, 10s, random) == 0s);
  REQUIRE(random.bits() == twin.bits());
}

}  // namespace
}  // namespace starling
