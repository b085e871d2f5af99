// Data sets of floats: statistics, gathering, memory and display.
#include "datasets/dataset.h"

#include <cmath>
#include <limits>

#include "datasets/info.h"
#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

Dataset floats(const ImageShape& shape, const std::vector<float>& values) {
  Dataset set;
  set.shape = shape;
  set.features = values;
  set.labels.resize(values.size() / static_cast<std::size_t>(shape.size()));
  for (std::size_t k = 0; k < set.labels.size(); ++k) set.labels[k] = static_cast<std::uint8_t>(k % 2);
  set.classes = 2;
  return set;
}

std::vector<float> gathered(const Dataset& set, const std::vector<std::uint32_t>& indices) {
  std::vector<float> values(indices.size() * static_cast<std::size_t>(set.shape.size()));
  std::vector<std::int32_t> labels(indices.size());
  set.gather(indices, values.data(), labels.data());
  for (std::size_t i = 0; i < indices.size(); ++i) REQUIRE(labels[i] == set.labels[indices[i]]);
  return values;
}

}  // namespace

TEST_CASE("rows of floats are measured and normalized column by column") {
  Dataset set = floats({3, 1, 1}, {1, 100, -7, 3, 300, -7, 5, 200, -7});
  set.normalization = measure(set);
  REQUIRE(set.normalization.size() == 3);
  CHECK(set.normalization[0].mean == 3);
  CHECK(set.normalization[0].deviation == Approx(std::sqrt(8.0 / 3)));
  CHECK(set.normalization[1].mean == 200);
  CHECK(set.normalization[1].deviation == Approx(std::sqrt(20000.0 / 3)));
  CHECK(set.normalization[2].mean == -7);
  CHECK(set.normalization[2].deviation == 1);  // constant
  const auto values = gathered(set, {2, 0});
  const std::vector<double> expected = {std::sqrt(1.5), 0, 0, -std::sqrt(1.5), -std::sqrt(1.5), 0};
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(static_cast<double>(values[i]) == Approx(expected[i]).margin(1e-6));
}

TEST_CASE("float images are measured and normalized channel by channel") {
  Dataset set = floats({2, 1, 2}, {0, 1, 10, 10, 2, 3, 10, 14});
  CHECK(gathered(set, {1}) == std::vector<float>{2, 3, 10, 14});  // not normalized
  set.normalization = measure(set);
  REQUIRE(set.normalization.size() == 2);
  CHECK(set.normalization[0].mean == 1.5f);
  CHECK(set.normalization[0].deviation == Approx(std::sqrt(1.25)));
  CHECK(set.normalization[1].mean == 11);
  CHECK(set.normalization[1].deviation == Approx(std::sqrt(3.0)));
  const auto values = gathered(set, {1});
  CHECK(values[0] == Approx(0.5 / std::sqrt(1.25)));
  CHECK(values[1] == Approx(1.5 / std::sqrt(1.25)));
  CHECK(values[2] == Approx(-1 / std::sqrt(3.0)));
  CHECK(values[3] == Approx(3 / std::sqrt(3.0)));
}

TEST_CASE("a mean far from zero keeps the deviation exact, and a constant column has deviation 1") {
  std::vector<float> values;
  for (int k = 0; k < 1000; ++k) {
    values.push_back(4e6f + static_cast<float>(k % 2));
    values.push_back(0.1f);
    values.push_back(k == 0 ? std::numeric_limits<float>::denorm_min() : 0);  // too small to divide by
  }
  const Dataset set = floats({3, 1, 1}, values);
  const auto measured = measure(set);
  CHECK(measured[0].mean == 4000000.5f);
  CHECK(measured[0].deviation == 0.5f);
  CHECK(measured[1].mean == 0.1f);
  CHECK(measured[1].deviation == 1);
  CHECK(measured[2].deviation == 1);
}

TEST_CASE("the greatest floats have a finite mean and deviation") {
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto measured = measure(floats({1, 1, 1}, {kMax, -kMax, kMax, kMax}));
  CHECK(measured[0].mean == kMax / 2);
  CHECK(std::isfinite(measured[0].deviation));
}

TEST_CASE("a test set of floats is scaled by the training set, and may not have additional classes") {
  const Dataset train = floats({1, 1, 1}, {0, 2, 0, 2});
  Dataset test = floats({1, 1, 1}, {4});
  test.classes = 1;
  const auto pair = join("name", "folder", train, test);
  REQUIRE(pair.ok());
  CHECK(pair->test.classes == 2);
  CHECK(gathered(pair->test, {0}) == std::vector<float>{3});
  test.classes = 3;
  CHECK(contains(join("name", "folder", train, test).error().message,
                 "in 'folder' the test labels go up to 2, but the training labels only to 1"));
}

TEST_CASE("the size of a set of floats is the memory that it takes") {
  const auto pair =
      join("name", "", floats({3, 1, 1}, std::vector<float>(12)), floats({3, 1, 1}, std::vector<float>(6)));
  REQUIRE(pair.ok());
  const Info info = info_of(*pair);
  CHECK(info.floats);
  CHECK(info.memory_bytes == (12 + 6) * 4 + 4 + 2);
  CHECK(info.train_samples == 4);
  CHECK(info.train_per_class == std::vector<std::size_t>{2, 2});
  CHECK(info.normalization.size() == 3);
}

TEST_CASE("a float image is drawn from its smallest to its largest value, and a row is listed") {
  CHECK(draw_sample(floats({1, 1, 3}, {-5, 0, 5}), 0) == "  ==@@\n");
  CHECK(draw_sample(floats({2, 1, 2}, {0, 1, 0, 1}), 0) == "  @@\n");
  CHECK(draw_sample(floats({1, 2, 1}, {7, 7}), 0) == "  \n  \n");
  const Dataset rows = floats({3, 1, 1}, {0, 0, 0, 1.5f, -2e-7f, 3});
  CHECK(list_sample(rows, 1, 3) == "1.5 -2e-07 3\n");
  CHECK(list_sample(rows, 1, 2) == "1.5 -2e-07 ...\n");
  Dataset bytes;
  bytes.shape = {1, 1, 2};
  bytes.images = {1, 255};
  bytes.labels = {0};
  CHECK(list_sample(bytes, 0, 9) == "1 255\n");
}

}  // namespace starling::datasets
