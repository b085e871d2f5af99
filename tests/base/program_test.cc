#include "base/program.h"

#include "tests/catch.h"

namespace starling {

TEST_CASE("the path of the running program is absolute and names its file") {
  REQUIRE(program_path().is_absolute());
  REQUIRE(program_path().filename() == "tests-base");
  REQUIRE(std::filesystem::equivalent(program_path(), "/proc/self/exe"));
}

}  // namespace starling
