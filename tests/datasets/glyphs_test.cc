#include "datasets/glyphs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "datasets/info.h"
#include "tests/catch.h"

namespace starling::datasets {
namespace {

// Softmax regression in plain loops with momentum 0.9, rate 0.05 and batches of 64. Returns the test accuracy
// after each epoch.
std::vector<double> linear_accuracies(const DataPair& pair, int epochs) {
  constexpr std::size_t kIn = kGlyphSide * kGlyphSide, kOut = kGlyphClasses, kBatch = 64;
  std::vector<float> weights((kIn + 1) * kOut), velocity(weights.size()), gradient(weights.size());
  std::vector<float> images(kBatch * kIn);
  std::vector<std::int32_t> labels(kBatch);
  float logits[kOut];
  const auto forward = [&](const float* image) {
    for (std::size_t c = 0; c < kOut; ++c) logits[c] = weights[kIn * kOut + c];
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t c = 0; c < kOut; ++c) logits[c] += image[i] * weights[i * kOut + c];
  };
  Random random(3);
  std::vector<std::uint32_t> order(pair.train.size()), test(pair.test.size());
  std::iota(order.begin(), order.end(), 0u);
  std::iota(test.begin(), test.end(), 0u);
  std::vector<double> accuracies;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    random.shuffle(std::span(order));
    for (std::size_t begin = 0; begin + kBatch <= order.size(); begin += kBatch) {
      pair.train.gather(std::span(order).subspan(begin, kBatch), images.data(), labels.data());
      std::fill(gradient.begin(), gradient.end(), 0.0f);
      for (std::size_t b = 0; b < kBatch; ++b) {
        const float* image = images.data() + b * kIn;
        forward(image);
        const float most = *std::max_element(logits, logits + kOut);
        float sum = 0;
        for (float& z : logits) sum += z = std::exp(z - most);
        for (std::size_t c = 0; c < kOut; ++c)
          logits[c] = (logits[c] / sum - (static_cast<std::size_t>(labels[b]) == c ? 1.0f : 0.0f)) / kBatch;
        for (std::size_t i = 0; i < kIn; ++i)
          for (std::size_t c = 0; c < kOut; ++c) gradient[i * kOut + c] += image[i] * logits[c];
        for (std::size_t c = 0; c < kOut; ++c) gradient[kIn * kOut + c] += logits[c];
      }
      for (std::size_t i = 0; i < weights.size(); ++i) {
        velocity[i] = 0.9f * velocity[i] + gradient[i];
        weights[i] -= 0.05f * velocity[i];
      }
    }
    std::size_t correct = 0;
    for (std::size_t begin = 0; begin < test.size(); begin += kBatch) {
      const std::size_t n = std::min(kBatch, test.size() - begin);
      pair.test.gather(std::span(test).subspan(begin, n), images.data(), labels.data());
      for (std::size_t b = 0; b < n; ++b) {
        forward(images.data() + b * kIn);
        correct += std::max_element(logits, logits + kOut) - logits == labels[b];
      }
    }
    accuracies.push_back(static_cast<double>(correct) / static_cast<double>(test.size()));
  }
  return accuracies;
}

}  // namespace

TEST_CASE("the same seed draws the same glyphs, and another seed draws others") {
  const auto a = make_glyphs(5, 500, 100), b = make_glyphs(5, 500, 100), c = make_glyphs(6, 500, 100);
  REQUIRE(a.train.images == b.train.images);
  REQUIRE(a.train.labels == b.train.labels);
  REQUIRE(a.test.images == b.test.images);
  REQUIRE(a.train.images != c.train.images);
  REQUIRE(a.train.labels != c.train.labels);
  REQUIRE(a.name == "glyphs:seed=5");
}

TEST_CASE("training and test images are different draws") {
  const auto pair = make_glyphs(1, 500, 500);
  for (std::size_t i = 0; i < 500; ++i)
    REQUIRE_FALSE(std::equal(pair.test.images.begin() + static_cast<std::ptrdiff_t>(i * 784),
                             pair.test.images.begin() + static_cast<std::ptrdiff_t>((i + 1) * 784),
                             pair.train.images.begin() + static_cast<std::ptrdiff_t>(i * 784)));
}

TEST_CASE("the built-in set has 60,000 and 10,000 images, with equally frequent classes") {
  const auto loaded = load("glyphs", "");
  REQUIRE(loaded.ok());
  const Info info = info_of(*loaded);
  REQUIRE(info.name == "glyphs");
  REQUIRE(info.train_per_class == std::vector<std::size_t>(10, 6000));
  REQUIRE(info.test_per_class == std::vector<std::size_t>(10, 1000));
  REQUIRE(info.memory_bytes == 70000 * 785);
  // The normalized values have mean 0 and deviation 1.
  std::vector<std::uint32_t> all(info.train_samples);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<float> floats(2000 * 784);
  std::vector<std::int32_t> labels(2000);
  loaded->train.gather(std::span(all).first(2000), floats.data(), labels.data());
  double sum = 0, squares = 0;
  for (const float f : floats) {
    sum += static_cast<double>(f);
    squares += static_cast<double>(f) * static_cast<double>(f);
  }
  REQUIRE(std::abs(sum / static_cast<double>(floats.size()) - 0) < 0.02);
  REQUIRE(std::abs(squares / static_cast<double>(floats.size()) - 1) < 0.03);
}

TEST_CASE("a linear classifier learns some of the glyphs and stays below 92 % for three epochs",
          "[figures]") {
  const auto accuracies = linear_accuracies(make_glyphs(1), 3);
  for (const double accuracy : accuracies) {
    CAPTURE(accuracy);
    CHECK(accuracy < 0.92);
    CHECK(accuracy > 0.6);
  }
}

TEST_CASE("a drawn sample has one line per row, and darker characters at the glyph") {
  const auto pair = make_glyphs(1, 20, 10);
  const std::string drawing = draw_sample(pair.train, 3);
  REQUIRE(std::count(drawing.begin(), drawing.end(), '\n') == 28);
  REQUIRE(drawing.size() == 28 * 57);
  REQUIRE(drawing.find_first_of("#%@*") != std::string::npos);
  Dataset flat;
  flat.shape = {1, 1, 3};
  flat.images = {0, 128, 255};
  flat.labels = {0};
  REQUIRE(draw_sample(flat, 0) == "  ++@@\n");
}

TEST_CASE("a drawn sample has at most as many rows as wanted, with the image's shape") {
  const auto pair = make_glyphs(1, 20, 10);
  const std::string drawing = draw_sample(pair.train, 3, 14);
  REQUIRE(std::count(drawing.begin(), drawing.end(), '\n') == 14);
  REQUIRE(drawing.size() == 14 * 29);
  REQUIRE(drawing.find_first_of("#%@*+=") != std::string::npos);
  const std::string odd = draw_sample(pair.train, 3, 24);
  REQUIRE(std::count(odd.begin(), odd.end(), '\n') == 24);
  REQUIRE(odd.size() == 24 * 49);
  Dataset halves;  // a black row above a white one
  halves.shape = {1, 2, 2};
  halves.images = {0, 0, 255, 255};
  halves.labels = {0};
  REQUIRE(draw_sample(halves, 0, 1) == "==\n");  // 127.5, just below the middle
  REQUIRE(draw_sample(halves, 0, 5) == "    \n@@@@\n");
}

TEST_CASE("every glyph has a unique name") {
  std::vector<std::string> names;
  for (int label = 0; label < kGlyphClasses; ++label) names.push_back(glyph_name(label));
  std::sort(names.begin(), names.end());
  REQUIRE(std::unique(names.begin(), names.end()) == names.end());
}

}  // namespace starling::datasets
