#include "models/layout.h"

#include "tests/catch.h"

namespace starling::models {

TEST_CASE("tensors follow one another, each on a cache line") {
  Layout layout;
  CHECK(layout.arena_size() == 0);
  layout.append("a", {3, 5});
  layout.append("b", {16});
  layout.append("c", {2, 3, 3, 1});
  REQUIRE(layout.tensors().size() == 3);
  CHECK(layout.tensors()[0].offset == 0);
  CHECK(layout.tensors()[0].size == 15);
  CHECK(layout.tensors()[1].offset == 16);
  CHECK(layout.tensors()[2].offset == 32);
  CHECK(layout.tensors()[2].size == 18);
  CHECK(layout.arena_size() == 64);
  CHECK(layout.parameter_count() == 15 + 16 + 18);
}

TEST_CASE("a fingerprint depends only on names, shapes and their order") {
  const auto fingerprint = [](std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors) {
    Layout layout;
    for (auto& [name, shape] : tensors) layout.append(name, shape);
    return layout.fingerprint();
  };
  const std::uint64_t base = fingerprint({{"a", {2, 3}}, {"b", {4}}});
  CHECK(base == fingerprint({{"a", {2, 3}}, {"b", {4}}}));
  CHECK(base != fingerprint({{"a", {3, 2}}, {"b", {4}}}));
  CHECK(base != fingerprint({{"a", {6}}, {"b", {4}}}));
  CHECK(base != fingerprint({{"x", {2, 3}}, {"b", {4}}}));
  CHECK(base != fingerprint({{"b", {4}}, {"a", {2, 3}}}));
  CHECK(base != fingerprint({{"a", {2, 3}}}));
  CHECK(fingerprint({{"a", {1, 11}}}) != fingerprint({{"a", {11, 1}}}));
}

}  // namespace starling::models
