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
  for (const char* text : {"", "host", "host:", ":80", "host:65536", "host:-1", "::1:80", "a b:80", "host:8x",
                           "a\xc2\x9b:80", "\xff:80", "[[:80", "]:80"}) {
    INFO(text);
    REQUIRE(!Address::parse(text));
  }
}

TEST_CASE("UTF-8 is recognized, and overlong, cut, surrogate and too large characters are not") {
  for (const std::string text : {"", "plain", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    INFO(text);
    CHECK(is_utf8(text));
    CHECK(is_utf8("a" + text + "b"));
  }
  for (const std::string text :
       {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe6\x97", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK_FALSE(is_utf8(text));
    CHECK_FALSE(is_utf8("a" + text));
    CHECK_FALSE(is_utf8(text + "b"));
  }
}

TEST_CASE("controls, separators of lines and controls of the writing direction are not printable") {
  for (const std::string text : {"", "a b", "[]", "\xc2\xa0", "V\xc3\xb6gel", "\xe6\x97\xa5\xe6\x9c\xac",
                                 "\xf0\x9f\x98\x80", "\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xaa"}) {
    INFO(text);
    CHECK(is_printable(text));
  }
  for (const std::string& text :
       {std::string(1, '\0'), std::string("\n"), std::string("\x1b"), std::string("\x7f"),
        std::string("\xc2\x80"), std::string("\xc2\x85"), std::string("\xc2\x9b"), std::string("\xc2\x9f"),
        std::string("\xd8\x9c"), std::string("\xe2\x80\x8e"), std::string("\xe2\x80\x8f"),
        std::string("\xe2\x80\xa8"), std::string("\xe2\x80\xa9"), std::string("\xe2\x80\xaa"),
        std::string("\xe2\x80\xae"), std::string("\xe2\x81\xa6"), std::string("\xe2\x81\xa9"),
        std::string("\xff")}) {
    CHECK_FALSE(is_printable(text));
    CHECK_FALSE(is_printable("a" + text + "b"));
  }
}

TEST_CASE("hosts, names of members and names that a user may choose have separate rules") {
  for (const char* host : {"a", "127.0.0.1", "::1", "fe80::1%eth0", "b\xc3\xbc"}) CHECK(is_host(host));
  for (const char* host : {"", "a b", "[", "a]", "\xff", "a\xc2\x9b", "\xe2\x80\xae"})
    CHECK_FALSE(is_host(host));
  CHECK(is_host(std::string(kHostBytesMax, 'h')));
  CHECK_FALSE(is_host(std::string(kHostBytesMax + 1, 'h')));

  for (const char* name : {"", "p0", "[p]", "\"", "b\xc3\xbc"}) CHECK(is_member_name(name));
  for (const char* name : {" ", "a b", "a\n", "\xff", "a\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\xa8"})
    CHECK_FALSE(is_member_name(name));
  CHECK(is_member_name(std::string(kNameBytesMax, 'n')));
  CHECK_FALSE(is_member_name(std::string(kNameBytesMax + 1, 'n')));

  for (const char* name : {"p0", "A-b_c.9"}) CHECK(is_plain_name(name));
  for (const char* name : {"", ".p", "a/b", "a b", "b\xc3\xbc", "\""}) CHECK_FALSE(is_plain_name(name));
  CHECK_FALSE(is_plain_name(std::string(kNameBytesMax + 1, 'n')));
}

TEST_CASE("lists of accepted values are joined with commas and 'or'") {
  REQUIRE(one_of(std::vector<std::string>{"a"}) == "a");
  REQUIRE(one_of(std::vector<std::string>{"a", "b"}) == "a or b");
  REQUIRE(one_of(std::vector<std::string>{"a", "b", "c"}) == "a, b or c");
}

}  // namespace starling
