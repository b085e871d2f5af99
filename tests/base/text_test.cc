#include "base/text.h"

#include <vector>

#include "base/ids.h"
#include "tests/catch.h"

namespace starling {

TEST_CASE("durations survive formatting and parsing") {
  for (const char* text : {"20ms", "1500us", "90s", "250ns", "0s"}) {
    REQUIRE(format_duration(*parse_duration(text)) == text);
  }
  REQUIRE(parse_duration("1.5s")->count() == 1'500'000'000);
  REQUIRE(parse_duration("2h")->count() == 7'200'000'000'000);
}

TEST_CASE("invalid durations and bandwidths are rejected with the accepted forms") {
  for (const char* text : {"", "ms", "-1s", "5", "5 parsecs", "1e400s", "nan", "1..2s"}) {
    INFO(text);
    REQUIRE(!parse_duration(text));
    REQUIRE(parse_duration(text).error().message.find("expected") != std::string::npos);
  }
  for (const char* text : {"", "0Gbit/s", "1", "1GB/s", "-1bit/s"}) REQUIRE(!parse_bandwidth(text));
  REQUIRE(!parse_duration("9999999999h"));
}

TEST_CASE("bandwidths are bits per second with decimal prefixes") {
  REQUIRE(*parse_bandwidth("1Gbit/s") == 1e9);
  REQUIRE(*parse_bandwidth("2.5 Mbit/s") == 2.5e6);
  REQUIRE(format_bandwidth(1e7) == "10Mbit/s");
}

TEST_CASE("numbers must span the whole text") {
  REQUIRE(*parse_number<int>("-12") == -12);
  REQUIRE(!parse_number<int>("12 "));
  REQUIRE(!parse_number<int>(""));
  REQUIRE(!parse_number<unsigned>("-1"));
  REQUIRE(!parse_number<double>("inf"));
  REQUIRE(!parse_number<double>("nan"));
}

TEST_CASE("addresses are HOST:PORT, IPv6 in brackets") {
  REQUIRE(*Address::parse("127.0.0.1:7100") == Address{"127.0.0.1", 7100});
  REQUIRE(*Address::parse("[::1]:80") == Address{"::1", 80});
  REQUIRE(to_string(*Address::parse("[::1]:80")) == "[::1]:80");
  for (const char* text :
       {"", "host", "host:", ":80", "host:65536", "host:-1", "::1:80", "a b:80", "host:8x"}) {
    INFO(text);
    REQUIRE(!Address::parse(text));
  }
}

TEST_CASE("lists of accepted values are joined with commas and 'or'") {
  REQUIRE(one_of(std::vector<std::string>{"a"}) == "a");
  REQUIRE(one_of(std::vector<std::string>{"a", "b"}) == "a or b");
  REQUIRE(one_of(std::vector<std::string>{"a", "b", "c"}) == "a, b or c");
}

}  // namespace starling
