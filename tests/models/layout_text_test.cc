#include "models/layout_text.h"

#include <string>

#include "base/random.h"
#include "models/spec.h"
#include "tests/catch.h"
#include "tests/models/zoo_input.h"

namespace starling::models {
namespace {

std::string error_of(const std::string& text) {
  const auto parsed = parse_layout(text);
  return parsed ? "" : parsed.error().message;
}

}  // namespace

TEST_CASE("a layout's text reads back as the same layout") {
  for (const std::string& name : model_names()) {
    INFO(name);
    const Layout layout = make_model(name, zoo_input(name), 10)->layout;
    const std::string text = layout_text(layout);
    const auto read = parse_layout(text);
    REQUIRE(read.ok());
    CHECK(read->fingerprint() == layout.fingerprint());
    CHECK(read->arena_size() == layout.arena_size());
    CHECK(read->trained_size() == layout.trained_size());
    CHECK(layout_text(*read) == text);
    CHECK_FALSE(difference(*read, layout).has_value());
  }
  Layout scalar;
  scalar.append("scale", {});
  CHECK(layout_text(scalar) == "scale scalar");
  CHECK(parse_layout("scale scalar")->tensors().front().size == 1);
}

TEST_CASE("an error in a layout's text names the tensor") {
  CHECK(error_of("").find("tensor 1: '' is not NAME SHAPE") == 0);
  CHECK(error_of("a 2; b").find("tensor 2: 'b' is not NAME SHAPE") == 0);
  CHECK(error_of("a 2x").find("tensor 1: '2x' is not a shape such as 64x3x5x5") == 0);
  CHECK(error_of("a 0").find("tensor 1: '0' is not a shape") == 0);
  CHECK(error_of("a -3").find("tensor 1: '-3' is not a shape") == 0);
  CHECK(error_of("a 2; a 3").find("tensor 2: a occurs twice") == 0);
  CHECK(error_of("a 2 statistic; b 3").find("tensor 2: b is trained, and follows a statistic") == 0);
  CHECK(error_of("a 2 other").find("tensor 1: 'a 2 other' is not NAME SHAPE") == 0);
  CHECK(error_of("a 1048576x1048576x2").find("tensor 1: the tensor a has more than 2^40 floats") == 0);
  CHECK(error_of("a 1048576x1048576; b 1").find("the tensors have more than 2^40 floats") == 0);
  CHECK(error_of(std::string(300, 'n') + " 2").find("is not 1 to 200 bytes") != std::string::npos);
  std::string many = "t0 1";
  for (std::size_t i = 1; i <= kTensorsMax; ++i) many += "; t" + std::to_string(i) + " 1";
  CHECK(error_of(many) == "there are more than 4096 tensors");
}

TEST_CASE("a damaged text of a layout is an error or another layout, never more") {
  Random random(7);
  const std::string sound = layout_text(make_model("lenet", {1, 28, 28}, 10)->layout);
  for (int round = 0; round < 2000; ++round) {
    std::string text = sound;
    for (std::uint64_t i = random.below(4) + 1; i > 0; --i)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    const auto read = parse_layout(text);
    if (read) CHECK(parse_layout(layout_text(*read))->fingerprint() == read->fingerprint());
  }
}

TEST_CASE("the first tensor that differs is named, on both sides") {
  const auto layout = [](const char* text) { return *parse_layout(text); };
  const Layout here = layout("a 2; b 3x4");
  CHECK(difference(layout("a 2; b 3x5"), here) == "tensor 2 is b of 3x5 there, and b of 3x4 here");
  CHECK(difference(layout("c 2; b 3x4"), here) == "tensor 1 is c of 2 there, and a of 2 here");
  CHECK(difference(layout("a 2"), here) == "tensor 2 is missing there, and b of 3x4 here");
  CHECK(difference(layout("a 2; b 3x4; c 1"), here) == "tensor 3 is c of 1 there, and missing here");
}

}  // namespace starling::models
