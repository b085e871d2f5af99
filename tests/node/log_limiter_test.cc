// Limits on the log lines that other machines can cause.
#include "node/front/log_limiter.h"

#include <optional>
#include <string>

#include "node/front/event_log.h"
#include "tests/catch.h"

namespace starling::node {
namespace {

using std::chrono::seconds;
using Unlogged = std::optional<std::uint64_t>;

constexpr LogLimiter::Clock::time_point kBegin{seconds(1000)};

}  // namespace

TEST_CASE("an event is logged the first time, then once a minute with the number of those in between") {
  LogLimiter limiter(8);
  CHECK(limiter.count(kBegin, "bad magic", "10.0.0.1") == Unlogged(0));
  for (int i = 1; i < 60; ++i) CHECK_FALSE(limiter.count(kBegin + seconds(i), "bad magic", "10.0.0.1"));
  CHECK(limiter.count(kBegin + seconds(60), "bad magic", "10.0.0.1") == Unlogged(59));
  CHECK_FALSE(limiter.count(kBegin + seconds(61), "bad magic", "10.0.0.1"));
  CHECK(limiter.count(kBegin + seconds(500), "bad magic", "10.0.0.1") == Unlogged(1));
  CHECK(limiter.count(kBegin + seconds(600), "bad magic", "10.0.0.1") == Unlogged(0));
}

TEST_CASE("each kind and each source has its own line") {
  LogLimiter limiter(8);
  CHECK(limiter.count(kBegin, "bad magic", "10.0.0.1") == Unlogged(0));
  CHECK(limiter.count(kBegin, "timed out", "10.0.0.1") == Unlogged(0));
  CHECK(limiter.count(kBegin, "bad magic", "10.0.0.2") == Unlogged(0));
  CHECK_FALSE(limiter.count(kBegin, "bad magic", "10.0.0.1"));
  CHECK_FALSE(limiter.count(kBegin, "timed out", "10.0.0.1"));
}

TEST_CASE("any number of sources causes a bounded number of lines a minute") {
  LogLimiter limiter(8);
  int lines = 0;
  for (int i = 0; i < 10'000; ++i)
    lines += limiter.count(kBegin, "bad magic", "10.0.0." + std::to_string(i)).has_value() ? 1 : 0;
  CHECK(lines == 8 + 1);
  // The line of the sources that are not remembered has their number.
  CHECK(limiter.count(kBegin + seconds(59), "timed out", "10.1.0.1") == Unlogged(0));  // another kind
  CHECK_FALSE(limiter.count(kBegin + seconds(59), "bad magic", "10.1.0.1"));
  // After the interval the remembered sources make room for new ones.
  CHECK(limiter.count(kBegin + seconds(60), "bad magic", "10.1.0.1") == Unlogged(0));
  CHECK_FALSE(limiter.count(kBegin + seconds(60), "bad magic", "10.1.0.1"));
  for (int i = 1; i < 8; ++i)
    CHECK(limiter.count(kBegin + seconds(60), "bad magic", "10.2.0." + std::to_string(i)) == Unlogged(0));
  CHECK(limiter.count(kBegin + seconds(60), "bad magic", "10.3.0.1") == Unlogged(10'000 - 9 + 1));
}

TEST_CASE("a line says how many events were not logged") {
  CHECK(with_unlogged("it failed", 0) == "it failed");
  CHECK(with_unlogged("it failed", 1) == "it failed; 1 more like this was not logged");
  CHECK(with_unlogged("it failed", 12) == "it failed; 12 more like this were not logged");
}

TEST_CASE("repeated notices about one member are told once, and those about others are not affected") {
  using What = gossip::Notice::What;
  EventLog log;
  for (int i = 0; i < 100; ++i) {
    log.tell({What::failed, PeerId{7}, "p7 at 127.0.0.1:4007"});
    log.tell({What::recovered, PeerId{7}, "p7 at 127.0.0.1:4007"});
  }
  log.tell({What::failed, PeerId{8}, "p8 at 127.0.0.1:4008"});
  const auto told = log.since(0);
  REQUIRE(told.size() == 3);
  CHECK(told[0].what == "failed");
  CHECK(told[1].what == "recovered");
  CHECK(told[2].peer == PeerId{8});
  for (int i = 0; i < 2; ++i) log.tell({What::diverged, {}, ""});
  CHECK(log.latest() == 5);
}

}  // namespace starling::node
