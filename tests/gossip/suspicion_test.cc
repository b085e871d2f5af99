#include "gossip/members/membership.h"
#include "gossip/members/prober.h"
#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

TEST_CASE("the timeout of an answer is half the probe interval before the first measurement") {
  REQUIRE(answer_limit(Record{}, Duration{0}, 1s) == 500ms);
}

TEST_CASE("the timeout is the measured round trip plus four deviations plus twice this peer's lag") {
  Record record;
  record.round_trip = {200ms, 50ms};
  REQUIRE(answer_limit(record, Duration{0}, 1s) == 400ms);
  REQUIRE(answer_limit(record, 30ms, 1s) == 460ms);
}

TEST_CASE("the timeout of an answer is between a tenth of the probe interval and four intervals") {
  Record record;
  record.round_trip.mean = 1ms;
  REQUIRE(answer_limit(record, Duration{0}, 1s) == 100ms);
  record.round_trip.mean = 60s;
  REQUIRE(answer_limit(record, Duration{0}, 1s) == 4s);
}

TEST_CASE("the suspicion window grows with the swarm's logarithm and shrinks with accusers, to a minimum") {
  const MembershipOptions options;
  REQUIRE(longest_suspicion(options, 2) == 4s);
  REQUIRE(longest_suspicion(options, 1000) == 12s);
  REQUIRE(suspicion_window(options, 1000, 1) == 12s);
  const Duration two = suspicion_window(options, 1000, 2);
  const Duration three = suspicion_window(options, 1000, 3);
  REQUIRE(two == 9s);  // log 2 / log 4 of the way to the minimum
  REQUIRE(three < two);
  REQUIRE(suspicion_window(options, 1000, 4) == 6s);
  REQUIRE(suspicion_window(options, 1000, 100) == 6s);
  REQUIRE(suspicion_window(options, 2, 4) == 4s);
}

}  // namespace starling::gossip
