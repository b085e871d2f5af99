#include "base/nearest.h"

#include <string>
#include <vector>

#include "tests/catch.h"

namespace starling {

TEST_CASE("the edit distance counts insertions, deletions and substitutions") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("kernel", "") == 6);
  CHECK(edit_distance("", "kernel") == 6);
  CHECK(edit_distance("kernal", "kernel") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is the first with the smallest distance, at most two") {
  const std::vector<std::string> names = {"relu", "gelu", "linear"};
  REQUIRE(nearest("rely", names) == &names[0]);
  REQUIRE(nearest("xelu", names) == &names[0]);
  REQUIRE(nearest("gel", names) == &names[1]);
  REQUIRE(nearest("liner", names) == &names[2]);
  REQUIRE(nearest("dropout", names) == nullptr);
  REQUIRE(nearest("relu", std::vector<std::string>{}) == nullptr);
}

}  // namespace starling
