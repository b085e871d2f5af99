#include "training/mixing/mixer.h"

#include <utility>

#include "tests/catch.h"
#include "training/learning/recipe.h"
#include "training/mixing/make.h"

namespace starling::training {

TEST_CASE("a grid divides an arena into cells that cover it once") {
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

TEST_CASE("a chunk is the fewest whole cells that hold the requested bytes") {
  Experiment experiment;
  REQUIRE_FALSE(chunk_cells(experiment, 1000).has_value());  // auto
  for (const auto& [bytes, cells] :
       {std::pair{1, 1}, {3999, 1}, {4000, 1}, {4001, 2}, {8000, 2}, {1'000'000, 250}}) {
    experiment.gossip.chunk = static_cast<std::uint64_t>(bytes);
    REQUIRE(chunk_cells(experiment, 1000) == static_cast<std::size_t>(cells));
  }
  experiment.gossip.chunk = 4 * sizeof(float) * kDefaultCellFloats;
  REQUIRE(chunk_cells(experiment) == 4);
}

}  // namespace starling::training
