#include "base/toml_keys.h"

#include <string>

#include "tests/catch.h"

namespace starling {
namespace {

std::string dotted(int dots, const std::string& part = "a") {
  std::string key = part;
  for (int i = 0; i < dots; ++i) key += "." + part;
  return key;
}

}  // namespace

TEST_CASE("a key with more than sixteen dots is found with its line") {
  REQUIRE(line_of_deep_key(dotted(16) + " = 1") == std::nullopt);
  REQUIRE(line_of_deep_key(dotted(17) + " = 1") == 1);
  REQUIRE(line_of_deep_key("\n\n[" + dotted(17) + "]") == 3);
  REQUIRE(line_of_deep_key("a = { b = 1, " + dotted(17) + " = 1 }") == 1);
  REQUIRE(line_of_deep_key("# a.b.c \"\n" + dotted(17, "\"=\"") + " = 1") == 2);
  REQUIRE(line_of_deep_key("a = \"\"\" \" \\\"\"\" \"\"\"\n" + dotted(17, "'.'") + " = 1") == 2);
  REQUIRE(line_of_deep_key("a = \"unfinished\n" + dotted(17) + " = 1") == 2);
}

TEST_CASE("dots in values, comments and text are no dots of a key") {
  std::string numbers = "a = [";
  for (int i = 0; i < 1000; ++i) numbers += "0.5, ";
  REQUIRE(line_of_deep_key(numbers + "]") == std::nullopt);
  REQUIRE(line_of_deep_key("a = \"" + dotted(100) + "\"") == std::nullopt);
  REQUIRE(line_of_deep_key("a = '" + dotted(100) + "'") == std::nullopt);
  REQUIRE(line_of_deep_key("a = '''\n" + dotted(100) + "'''") == std::nullopt);
  REQUIRE(line_of_deep_key("a = 1  # " + dotted(100)) == std::nullopt);
  REQUIRE(line_of_deep_key("") == std::nullopt);
  REQUIRE(line_of_deep_key("a = \"\\") == std::nullopt);
}

}  // namespace starling
