#include "lab/report/flat_line.h"

#include <string>

#include "base/random.h"
#include "tests/catch.h"
#include "training/runs/records/json.h"

namespace starling::lab {

TEST_CASE("a line of a series has the values of JSON, in its common form and in any other") {
  FlatLine line;
  for (const std::string text :
       {R"({"seconds":1.5,"peer":"p3","steps":40,"loss":-4e-2,"accuracy":null,"end":true,"zero":0})",
        R"({ "seconds":1.5,"peer":"p\u0033","steps":40,"loss":-0.04,"accuracy":null,"zero":0,"end":[1]})"}) {
    CAPTURE(text);
    REQUIRE(line.read(text));
    CHECK(line.figure("seconds") == 1.5);
    CHECK(line.figure("steps") == 40.0);
    CHECK(line.figure("loss") == -0.04);
    CHECK(line.figure("zero") == 0.0);
    CHECK(line.text("peer") == "p3");
    CHECK_FALSE(line.figure("peer").has_value());
    CHECK_FALSE(line.text("seconds").has_value());
    CHECK_FALSE(line.figure("accuracy").has_value());
    CHECK_FALSE(line.figure("missing").has_value());
  }
  for (const char* const text : {"", "{", "[1]", R"({"a":1)", R"({"a":01})", R"({"a":1.})", R"({"a":.5})",
                                 R"({"a":+1})", R"({"a":nan})", R"({"a":1,"a":2})", R"({"a":1}})",
                                 R"({"a":1,})", R"({"a":"b})", R"({"a":0x1})", R"({"a":-})"}) {
    CAPTURE(text);
    CHECK_FALSE(line.read(text));
  }
}

TEST_CASE("a damaged line is read as the parser of JSON reads it") {
  const std::string whole = R"({"seconds":1.25,"peer":"p10","loss":2.5e-07,"accuracy":null,"end":false})";
  const std::string others = R"({}[]",:.-+eE019ntf\ )";
  FlatLine line;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    std::string text = whole;
    for (std::uint64_t changes = 1 + random.below(2); changes > 0; --changes)
      text[random.below(text.size())] = others[random.below(others.size())];
    CAPTURE(text);
    const training::Json json = training::parse_json(text);
    REQUIRE(line.read(text) == json.is_object());
    if (!json.is_object()) continue;
    for (const char* const key : {"seconds", "loss", "peer"}) {
      const auto found = json.find(key);
      const bool number = found != json.end() && found->is_number(),
                 text_there = found != json.end() && found->is_string();
      REQUIRE(line.figure(key) == (number ? std::optional(found->get<double>()) : std::nullopt));
      REQUIRE(line.text(key).has_value() == text_there);
      if (text_there) REQUIRE(*line.text(key) == found->get<std::string>());
    }
  }
}

}  // namespace starling::lab
