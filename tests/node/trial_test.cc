#include "node/peer/trial.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace starling::node {
namespace {

datasets::Dataset images() {
  datasets::Dataset set;
  set.shape = {1, 2, 2};
  set.classes = 3;
  set.images = {1, 2, 3, 4};
  set.labels = {2};
  set.normalization = {{0.5F, 0.25F}};
  return set;
}

datasets::Dataset rows() {
  datasets::Dataset set;
  set.shape = {3, 1, 1};
  set.classes = 2;
  set.features = {1, 2, 3};
  set.labels = {0};
  set.normalization = {{0, 1}, {0, 1}, {0, 1}};
  return set;
}

TEST_CASE("a sample is read with the shape and normalization of the data") {
  const auto picture = parse_sample(R"({"values": [0, 255, 127.6, 3]})", images());
  REQUIRE(picture.ok());
  CHECK(picture->images == std::vector<std::uint8_t>{0, 255, 128, 3});
  CHECK(picture->shape == images().shape);
  CHECK(picture->size() == 1);
  REQUIRE(picture->normalization.size() == 1);
  CHECK(picture->normalization[0].mean == 0.5F);

  const auto row = parse_sample(R"({"values": [-1.5, 1e6, 0]})", rows());
  REQUIRE(row.ok());
  CHECK(row->features == std::vector<float>{-1.5F, 1e6F, 0});
  CHECK(row->has_floats());
}

TEST_CASE("a sample of another shape, with other values or none is refused in one sentence") {
  const auto why = [](const char* text, const datasets::Dataset& like) {
    const auto sample = parse_sample(text, like);
    REQUIRE_FALSE(sample.ok());
    return sample.error().message;
  };
  for (const char* text : {"", "[]", "{}", "null", R"({"values": 1})", R"({"values": "x"})"})
    CHECK(why(text, images()) == "the body must be {\"values\": [NUMBER, ...]}");
  CHECK(why(R"({"values": [1, 2, 3]})", images()) == "a sample has 4 values, and 3 were sent");
  CHECK(why(R"({"values": [1, 2, 256, 4]})", images()) == "the pixel 256 is not between 0 and 255");
  CHECK(why(R"({"values": [1, -1, 3, 4]})", images()) == "the pixel -1 is not between 0 and 255");
  CHECK(why(R"({"values": [1, null, 3]})", rows()) == "value 2 is not a finite number");
  CHECK(why(R"({"values": [1, 2, 1e999]})", rows()).find("the body must be") == 0);
}

TEST_CASE("a page is told the shape of a sample") {
  CHECK(nlohmann::json::parse(input_json({"", images(), {}})) ==
        nlohmann::json::parse(R"({"shape": [1, 2, 2], "pixels": true, "classes": 3})"));
  CHECK(nlohmann::json::parse(input_json({"", rows(), {}})).at("pixels") == false);
}

}  // namespace
}  // namespace starling::node
