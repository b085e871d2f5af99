#include "base/random.h"

#include <set>
#include <vector>

#include "tests/catch.h"

namespace starling {

TEST_CASE("the same seed gives the same sequence, on every platform") {
  Random a(42), b(42);
  for (int i = 0; i < 100; ++i) REQUIRE(a.bits() == b.bits());
  REQUIRE(Random(1).bits() != Random(2).bits());
}

TEST_CASE("a split stream depends on the seed and the purpose, not on earlier draws") {
  Random a(7);
  const auto before = a.split(3).bits();
  a.bits();
  REQUIRE(a.split(3).bits() == before);
  REQUIRE(a.split(4).bits() != before);
}

TEST_CASE("bounded draws are uniform and below the bound") {
  Random random(5);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) REQUIRE(std::abs(count - 10000) < 500);
}

TEST_CASE("normal draws have mean 0 and variance 1, exponential ones mean 1") {
  Random random(9);
  double sum = 0, squares = 0, waits = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    waits += random.exponential();
  }
  REQUIRE(std::abs(sum / n) < 0.02);
  REQUIRE(std::abs(squares / n - 1) < 0.02);
  REQUIRE(std::abs(waits / n - 1) < 0.02);
}

TEST_CASE("shuffle keeps every element") {
  Random random(1);
  std::vector<int> items{1, 2, 3, 4, 5, 6, 7, 8};
  random.shuffle(std::span(items));
  REQUIRE(std::set<int>(items.begin(), items.end()).size() == 8);
}

}  // namespace starling
