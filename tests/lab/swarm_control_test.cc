// Messages between peers and the launcher (training/runs/experiment/control.h).
#include <limits>

#include "tests/catch.h"
#include "training/runs/experiment/control.h"

namespace starling::training {
namespace {

TEST_CASE("a report reads back as it was written, on one line") {
  PeerReport report;
  report.kind = PeerReport::Kind::finished;
  report.address = "127.0.0.1:7100";
  report.state = "left";
  report.steps = 12;
  report.samples = 768;
  report.swarm_samples = 2000;
  report.bytes_sent = std::numeric_limits<std::uint64_t>::max();
  report.members = 3;
  report.seconds = 1.25;
  report.samples_per_second = 614.4;
  report.loss = 0.5;
  report.distance = 0.01;
  report.exchanges = {4, 3, 2, 1, {{"not_finite", 5}, {"late", 1}}};
  report.answered = 5;
  report.snapshot = 7;
  report.path = "a folder/with \"quotes\"\nand lines";
  report.path_before_settling = "b";
  report.computing_seconds = 1.5;
  report.exchanging_seconds = 0.25;
  report.waiting_seconds = 0.125;
  report.staleness.count(0);
  report.staleness.count(7);
  const std::string line = to_json(report);
  CHECK(line.find('\n') == std::string::npos);
  const auto read = parse_report(line);
  REQUIRE(read.ok());
  CHECK(read->kind == report.kind);
  CHECK(read->path == report.path);
  CHECK(read->bytes_sent == report.bytes_sent);
  CHECK(read->answered == 5);
  CHECK(read->computing_seconds == 1.5);
  CHECK(read->waiting_seconds == 0.125);
  CHECK(read->staleness.counts() == report.staleness.counts());
  CHECK(read->exchanges.refused_chunks == report.exchanges.refused_chunks);
  CHECK(to_json(*read) == line);
}

TEST_CASE("a loss that is not a number is absent in the message") {
  PeerReport report;
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.seconds = std::numeric_limits<double>::infinity();
  const auto read = parse_report(to_json(report));
  REQUIRE(read.ok());
  CHECK_FALSE(read->loss.has_value());
  CHECK(read->seconds == 0);
}

TEST_CASE("a line that is not a report is an error") {
  for (const char* line :
       {"", "{", "[]", "3", "{}", "{\"kind\":\"song\"}", "{\"kind\":\"status\",\"steps\":-1}",
        "{\"kind\":\"status\",\"steps\":1.5}", "{\"kind\":\"status\",\"steps\":\"1\"}",
        "{\"kind\":\"status\",\"members\":4294967296}", "{\"kind\":\"status\",\"loss\":\"low\"}",
        "{\"kind\":\"status\",\"exchanges\":3}", "{\"kind\":\"status\",\"exchanges\":{\"completed\":true}}",
        "{\"kind\":\"status\",\"exchanges\":{\"refused_chunks\":{\"late\":-1}}}",
        "{\"kind\":\"status\",\"exchanges\":{\"refused_chunks\":[]}}",
        "{\"kind\":\"status\",\"staleness\":[1,-1]}", "{\"kind\":\"status\",\"staleness\":{}}",
        "{\"kind\":\"status\",\"path\":[]}"}) {
    INFO(line);
    const auto read = parse_report(line);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.find("report") != std::string::npos);
  }
}

TEST_CASE("a link order reads back as it was written, on one line that a peer accepts") {
  using namespace std::chrono_literals;
  for (const LinkOrder& order :
       {LinkOrder{{"127.0.0.1", 7101}}, LinkOrder{{"::1", 1}, 20ms, 1e7, 0.01},
        LinkOrder{{"host", 65535}, 0s, 1.0 / 3e-4}, LinkOrder{{"host", 2}, 1000h, 1e15, 1 - 0x1p-53},
        LinkOrder{{"host", 2}, 1ns, 0, 1e-300}}) {
    const std::string line = format_link_order(order);
    INFO(line);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 200);
    CHECK(is_link_order(line));
    const auto read = parse_link_order(line);
    REQUIRE(read.ok());
    CHECK(*read == order);
  }
  CHECK(format_link_order({{"127.0.0.1", 7101}, 20ms, 1e7, 0.01}) ==
        "link 127.0.0.1:7101 latency=20ms bandwidth=10Mbit/s drop=0.01");
  CHECK_FALSE(is_link_order(kEndCommand));
  CHECK_FALSE(is_link_order(kLeaveCommand));
}

TEST_CASE("a line that is not a link order is an error") {
  for (const char* line :
       {"", "link", "link ", "link here", "link 127.0.0.1", "link 127.0.0.1:1 latency", "link :1 ",
        "link 127.0.0.1:1 latency=", "link 127.0.0.1:1 latency=20", "link 127.0.0.1:1 bandwidth=0",
        "link 127.0.0.1:1 bandwidth=-1Mbit/s", "link 127.0.0.1:1 drop=1", "link 127.0.0.1:1 drop=-0.1",
        "link 127.0.0.1:1 drop=nan", "link 127.0.0.1:1 jitter=1ms", "link 127.0.0.1:1  drop=0.1"}) {
    INFO(line);
    const auto read = parse_link_order(line);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.find("a command for a link: ") == 0);
  }
}

}  // namespace
}  // namespace starling::training
