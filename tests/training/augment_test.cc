#include "training/learning/augment.h"
#include "kernels/by_name/backends.h"

#include <map>
#include <numeric>
#include <utility>

#include "tests/catch.h"
#include "training/learning/recipe.h"

namespace starling::training {
namespace {

datasets::Dataset of_shape(const datasets::ImageShape& shape) {
  datasets::Dataset data;
  data.shape = shape;
  return data;
}

// Images with distinct pixels, except for the channel's mean and deviation.
datasets::Dataset distinct(datasets::ImageShape shape, std::size_t n) {
  datasets::Dataset data;
  data.shape = shape;
  data.classes = 2;
  for (int c = 0; c < shape.channels; ++c)
    data.normalization.push_back({0.25f + 0.1f * static_cast<float>(c), 0.5f + 0.2f * static_cast<float>(c)});
  for (std::size_t i = 0; i < n; ++i) {
    data.labels.push_back(static_cast<std::uint8_t>(i % 2));
    for (int p = 0; p < shape.size(); ++p)
      data.images.push_back(static_cast<std::uint8_t>(1 + (p + 7 * static_cast<int>(i)) % 255));
  }
  return data;
}

std::vector<float> gathered(const datasets::Dataset& data) {
  std::vector<std::uint32_t> indices(data.size());
  std::iota(indices.begin(), indices.end(), 0u);
  std::vector<float> images(data.size() * static_cast<std::size_t>(data.shape.size()));
  std::vector<std::int32_t> labels(data.size());
  data.gather(indices, images.data(), labels.data());
  return images;
}

// The definition, pixel by pixel: a raw image is padded with zeros, cropped, mirrored, and then normalized.
std::vector<float> defined(const datasets::Dataset& data, std::size_t image, int crop, int down, int right,
                           bool mirrored) {
  datasets::Dataset one = data;
  one.labels = {data.labels[image]};
  one.images.clear();
  const auto [channels, height, width] = data.shape;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int from_y = y + down - crop, from_x = (mirrored ? width - 1 - x : x) + right - crop;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        const int at = ((static_cast<int>(image) * channels + c) * height + from_y) * width + from_x;
        one.images.push_back(inside ? data.images[static_cast<std::size_t>(at)] : 0);
      }
    }
  }
  return gathered(one);
}

std::string augment_refusal(const Experiment& experiment, datasets::ImageShape shape) {
  const auto made = make_augmentation(experiment, of_shape(shape));
  REQUIRE_FALSE(made.ok());
  return made.error().message;
}

}  // namespace

TEST_CASE("every offset and side of a crop and flip is equally likely, and follows the definition") {
  constexpr int kCrop = 2, kPlaces = 2 * kCrop + 1;
  for (const datasets::ImageShape shape : {datasets::ImageShape{1, 6, 5}, datasets::ImageShape{3, 4, 7}}) {
    const auto data = distinct(shape, 1);
    const auto original = gathered(data);
    std::map<std::vector<float>, std::tuple<int, int, bool>> known;
    for (int down = 0; down < kPlaces; ++down) {
      for (int right = 0; right < kPlaces; ++right) {
        for (const bool mirrored : {false, true})
          known[defined(data, 0, kCrop, down, right, mirrored)] = {down, right, mirrored};
      }
    }
    REQUIRE(known.size() == kPlaces * kPlaces * 2);  // all of them differ
    Augmenter augmenter(data, {kCrop, true}, Random(7));
    std::map<std::tuple<int, int, bool>, int> seen;
    constexpr int kDraws = 50'000;
    for (int i = 0; i < kDraws; ++i) {
      auto image = original;
      augmenter.change(image.data(), 1);
      const auto found = known.find(image);
      REQUIRE(found != known.end());
      ++seen[found->second];
    }
    // 1000 of each are expected; Pearson's statistic over 50 cells is below 86 with probability 0.999.
    double chi_squared = 0;
    for (const auto& [image, place] : known)
      chi_squared += (seen[place] - 1000.0) * (seen[place] - 1000.0) / 1000;
    REQUIRE(chi_squared < 86);
  }
}

TEST_CASE("a batch is changed image by image, with all channels alike") {
  const auto data = distinct({3, 8, 8}, 40);
  auto images = gathered(data);
  Augmenter augmenter(data, {4, true}, Random(3));
  augmenter.change(images.data(), 40);
  Random random(3);
  const std::size_t size = 3 * 8 * 8;
  for (std::size_t i = 0; i < 40; ++i) {
    const int down = static_cast<int>(random.below(9)), right = static_cast<int>(random.below(9));
    const bool mirrored = random.below(2) == 1;
    const auto begin = images.begin() + static_cast<std::ptrdiff_t>(i * size);
    REQUIRE(std::vector<float>(begin, begin + size) == defined(data, i, 4, down, right, mirrored));
  }
}

TEST_CASE("flips mirror about half of the images, and the same flips twice restore the image") {
  const auto data = distinct({2, 5, 6}, 1000);
  const auto original = gathered(data);
  auto images = original;
  Augmenter(data, {0, true}, Random(5)).change(images.data(), 1000);
  int mirrored = 0;
  for (std::size_t i = 0; i < 1000; ++i) mirrored += images[i * 60] != original[i * 60];
  CHECK(mirrored > 420);  // five standard deviations
  CHECK(mirrored < 580);
  Augmenter(data, {0, true}, Random(5)).change(images.data(), 1000);
  CHECK(images == original);
}

TEST_CASE("without crops and flips no image is changed and no number is drawn") {
  const auto data = distinct({1, 4, 4}, 10);
  auto images = gathered(data);
  const auto original = images;
  Augmenter(data, {}, Random(1)).change(images.data(), 10);
  CHECK(images == original);
}

TEST_CASE("workers train on the same changed images each time, in the same order of samples") {
  auto data = distinct({1, 8, 8}, 200);
  Experiment experiment;
  experiment.model.name = "softmax";
  experiment.training.batch_size = 32;
  const auto plan = make_plan(experiment, data);
  REQUIRE(plan.ok());
  const auto backend = kernels::make_backend("reference");
  models::Arena parameters(plan->layout.arena_size());
  parameters.write(0, first_parameters(*plan, 1));
  const auto losses = [&](std::uint32_t crop, bool flip) {
    experiment.training.crop = crop;
    experiment.training.flip = flip;
    const auto workers = make_workers(experiment, *plan, **backend, data, 0, 1);
    REQUIRE(workers.ok());
    std::vector<double> seen;
    Worker& worker = *(*workers)[0];
    worker.set_rate([] { return 0.0; });
    for (int i = 0; i < 10; ++i) {
      worker.feed(parameters);
      seen.push_back(worker.land().value());
    }
    return seen;
  };
  const auto plain = losses(0, false);
  CHECK(losses(0, false) == plain);
  CHECK(losses(2, true) == losses(2, true));
  CHECK(losses(2, false) != plain);
  CHECK(losses(0, true) != plain);
  CHECK(losses(2, true) != losses(2, false));
  // Black images are unchanged by crops and flips, so equal losses show that samples come in the same order.
  std::fill(data.images.begin(), data.images.end(), std::uint8_t{0});
  const auto black = losses(0, false);
  CHECK(losses(2, true) == black);
}

TEST_CASE("windows of data that are no text are rejected") {
  Experiment experiment;
  experiment.data.windows = "contiguous";
  CHECK(augment_refusal(experiment, {784, 1, 1}) ==
        "data.windows: this data is not a text; only a text is divided into windows");
}

TEST_CASE("crops and flips of vectors, or of images that are too small, are rejected") {
  Experiment experiment;
  CHECK_FALSE(make_augmentation(experiment, of_shape({784, 1, 1}))->any());
  experiment.training.flip = true;
  CHECK(augment_refusal(experiment, {784, 1, 1}) ==
        "training.flip: the samples of this data are vectors of 784 numbers; only images can be cropped and "
        "flipped");
  experiment.training.crop = 1;
  CHECK(augment_refusal(experiment, {784, 1, 1})
            .starts_with("training.crop: the samples of this data are vectors"));
  experiment.training.crop = 15;
  CHECK(augment_refusal(experiment, {1, 28, 40}) ==
        "training.crop: a padding of 15 pixels is more than half of an image of 28x40; expected at most 14");
  experiment.training.crop = 14;
  const auto made = make_augmentation(experiment, of_shape({1, 28, 40}));
  REQUIRE(made.ok());
  CHECK(made->crop == 14);
  CHECK(made->flip);

  // Detected when the workers are made, with the data.
  experiment.model.name = "softmax";
  experiment.training.crop = 3;
  const auto data = distinct({2, 4, 4}, 20);
  const auto plan = make_plan(experiment, data);
  const auto backend = kernels::make_backend("reference");
  const auto workers = make_workers(experiment, *plan, **backend, data, 0, 1);
  REQUIRE_FALSE(workers.ok());
  CHECK(workers.error().message.find("at most 2") != std::string::npos);
}

}  // namespace starling::training
