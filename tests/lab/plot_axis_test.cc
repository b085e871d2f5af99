// The numbers beside the axes of figures.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "lab/plot/axis.h"
#include "lab/plot/mean_curve.h"
#include "tests/catch.h"

namespace starling::lab {
namespace {

std::vector<std::string> labels_on(const AxisScale& scale, std::size_t most) {
  std::vector<std::string> labels;
  for (const AxisTick& tick : axis_ticks(scale, most))
    if (!tick.label.empty())
      labels.push_back(tick.label + (tick.exponent.empty() ? "" : "^" + tick.exponent));
  return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("linear ticks are round numbers at equal distances within the axis") {
  CHECK(labels_on({0, 10, false}, 6) == Labels{"0", "2", "4", "6", "8", "10"});
  CHECK(labels_on({0, 10, false}, 3) == Labels{"0", "5", "10"});
  CHECK(labels_on({0.31, 0.52, false}, 5) == Labels{"0.35", "0.40", "0.45", "0.50"});
  CHECK(labels_on({-1, 1, false}, 5) == Labels{"\u22121.0", "\u22120.5", "0.0", "0.5", "1.0"});
  CHECK(labels_on({0, 100000, false}, 3) == Labels{"0", "50000", "100000"});
}

TEST_CASE("logarithmic ticks are 1, 2 and 5 times powers of ten, or powers") {
  CHECK(labels_on({1, 100, true}, 9) == Labels{"1", "2", "5", "10", "20", "50", "100"});
  CHECK(labels_on({1, 100, true}, 4) == Labels{"1", "10", "100"});
  CHECK(labels_on({0.003, 40, true}, 5) == Labels{"0.01", "0.1", "1", "10"});
  CHECK(labels_on({1e-6, 1, true}, 4) == Labels{"10^\u22126", "10^\u22124", "10^\u22122", "10^0"});
  CHECK(labels_on({1e-6, 1e-5, true}, 5) ==
        Labels{"10^\u22126", "2\u00b710^\u22126", "5\u00b710^\u22126", "10^\u22125"});
  CHECK(labels_on({11, 14, true}, 5) == Labels{"11", "12", "13", "14"});  // too short for 1, 2 and 5
}

TEST_CASE("every axis has labels, at most as many as wanted, all inside") {
  Random random(7);
  for (int round = 0; round < 5000; ++round) {
    const bool log = random.chance(0.5);
    const double low = log ? std::pow(10, random.uniform(-9, 9)) : random.uniform(-1000, 1000);
    const double high =
        log ? low * std::pow(10, random.uniform(0.05, 9)) : low + std::pow(10, random.uniform(-5, 6));
    const AxisScale scale{low, high, log};
    const auto most = static_cast<std::size_t>(2 + random.below(8));
    CAPTURE(low, high, log, most);
    const auto ticks = axis_ticks(scale, most);
    std::size_t labeled = 0;
    for (std::size_t i = 0; i < ticks.size(); ++i) {
      const double place = scale.place(ticks[i].at);
      REQUIRE((place > -1e-6 && place < 1 + 1e-6));
      if (i > 0) REQUIRE(ticks[i].at > ticks[i - 1].at);
      labeled += ticks[i].label.empty() ? 0 : 1;
    }
    REQUIRE(labeled <= most);
    REQUIRE(labeled >= 1);
  }
}

TEST_CASE("a label is the number of its tick") {
  for (const AxisScale& scale :
       {AxisScale{0, 7, false}, {0.2, 0.9, false}, {3, 5000, true}, {0.004, 0.9, true}}) {
    for (const AxisTick& tick : axis_ticks(scale, 8)) {
      CAPTURE(tick.label, tick.at);
      if (!tick.label.empty())
        CHECK(std::abs(std::strtod(tick.label.c_str(), nullptr) - tick.at) < 1e-9 * 5000);
    }
  }
}

TEST_CASE("the mean of curves is taken where all have values, on straight lines") {
  const std::vector<CurvePoints> curves = {{{0, 0}, {2, 4}, {4, 4}}, {{1, 1}, {3, 3}, {9, 9}}};
  const auto mean = mean_curve(curves, false, false);
  REQUIRE(mean.size() == 4);  // at 1, 2, 3, 4
  const double xs[] = {1, 2, 3, 4}, first[] = {2, 4, 4, 4}, second[] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(mean[i].x == xs[i]);
    CHECK(mean[i].mean == (first[i] + second[i]) / 2);
    if (first[i] == second[i]) {
      CHECK_FALSE(mean[i].band.has_value());
      continue;
    }
    REQUIRE(mean[i].band.has_value());  // of two: both values
    CHECK(mean[i].band->low == std::min(first[i], second[i]));
    CHECK(mean[i].band->high == std::max(first[i], second[i]));
  }
  CHECK(mean_curve({{{0, 1}, {1, 2}}, {{5, 1}, {6, 2}}}, false, false).empty());  // nowhere together
  CHECK(mean_curve({{{0, 1}, {1, 2}, {7, 3}}}, false, false).size() == 3);
}

TEST_CASE("on logarithmic axes a mean curve interpolates and averages logarithms") {
  CHECK(std::abs(interpolated({{1, 1}, {100, 3}}, 10, true, false) - 2) < 1e-12);
  CHECK(std::abs(interpolated({{0, 1}, {2, 100}}, 1, false, true) - 10) < 1e-12);
  const auto mean = mean_curve({{{1, 1}, {2, 1}}, {{1, 100}, {2, 100}}}, false, true);
  CHECK(std::abs(mean[0].mean - 10) < 1e-12);
}

TEST_CASE("three values or more have Student's interval, two have both values") {
  const double five[] = {1, 2, 3, 4, 10};
  const MeanAndBand middle = mean_and_band(five, false);
  CHECK(middle.mean == 4);
  // The standard deviation is sqrt(50 / 4), and Student's factor for four degrees of freedom 2.7764.
  const double half = 2.7764451052 * std::sqrt(50.0 / 4 / 5);
  REQUIRE(middle.band.has_value());
  CHECK(std::abs(middle.band->low - (4 - half)) < 1e-6);
  CHECK(std::abs(middle.band->high - (4 + half)) < 1e-6);
  const double two[] = {8, 2};
  CHECK(mean_and_band(two, false).band->low == 2);
  CHECK(mean_and_band(two, true).mean == 4);
  CHECK(mean_and_band(two, true).band->high == 8);
  const double one[] = {8};
  CHECK_FALSE(mean_and_band(one, false).band.has_value());
}

}  // namespace starling::lab
