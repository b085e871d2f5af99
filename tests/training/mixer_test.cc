#include "training/exchange/mixer.h"

#include "tests/catch.h"

namespace starling::training {

TEST_CASE("a grid cuts an arena into cells that cover it once") {
  for (const std::size_t floats : {1, 7, 8, 9, 1000}) {
    const CellGrid grid{floats, 8};
    std::size_t covered = 0;
    for (std::size_t k = 0; k < grid.count(); ++k) {
      REQUIRE(grid.offset(k) == covered);
      REQUIRE(grid.floats(k) > 0);
      covered += grid.floats(k);
    }
    REQUIRE(covered == floats);
    REQUIRE(grid.floats(grid.count()) == 0);
    REQUIRE(grid.floats(SIZE_MAX) == 0);
  }
}

}  // namespace starling::training
