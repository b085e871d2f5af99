// A replica on a GPU against the same one on the host: the arena's passes, and workers with their recorded
// steps, their samples on the device or brought there, their optimizers, their judge. Skipped with a warning
// if there is no GPU, not even the emulated one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "datasets/dataset.h"
#include "kernels/backends.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/seeds.h"
#include "tests/training/near.h"
#include "training/replica/evaluator.h"
#include "training/replica/worker.h"

namespace starling::training {
namespace {

using kernels::gpu_backend;
using models::Arena;

std::vector<float> draw(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

std::vector<float> contents(const Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Images of random pixels (or floats) whose brightest quarter is the class.
datasets::Dataset quarters(std::size_t n, int channels, int extent, bool floats = false) {
  datasets::Dataset data;
  data.shape = {channels, extent, extent};
  data.classes = 4;
  for (int c = 0; c < channels; ++c)
    data.normalization.push_back({0.4F + 0.05F * static_cast<float>(c), 0.25F});
  Random random(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto label = static_cast<int>(random.below(4));
    data.labels.push_back(static_cast<std::uint8_t>(label));
    for (int k = 0; k < data.shape.size(); ++k) {
      const int row = k / extent % extent, column = k % extent;
      const bool bright = 2 * row / extent + 2 * (2 * column / extent) == label;
      const auto value = static_cast<std::uint8_t>((bright ? 100 : 40) + random.below(120));
      if (floats) {
        data.features.push_back(static_cast<float>(value) / 255.0F);
      } else {
        data.images.push_back(value);
      }
    }
  }
  return data;
}

std::vector<std::uint32_t> all_of(const datasets::Dataset& data) {
  std::vector<std::uint32_t> shard(data.size());
  std::iota(shard.begin(), shard.end(), 0U);
  return shard;
}

struct Options {
  Optimizer optimizer = Arena::SgdStep{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-3F};
  bool kept = true;  // the samples, on the device
  bool follow_swarm = false;
  Augmentation augmentation{};
  bool recompute = false;
};

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
};

Trained train(const kernels::Backend& backend, const models::Plan& plan, const datasets::Dataset& data,
              int steps, const Options& options) {
  Arena arena(plan.layout.arena_size(), backend);
  models::initialize(plan, Random(3), arena);
  Worker worker(
      plan, backend, data, BatchSampler(all_of(data), Random(4)),
      {12, options.optimizer, {7, options.recompute}, options.kept ? keep(data, backend) : nullptr});
  if (options.augmentation.any()) worker.augment(options.augmentation, Random(5));
  if (options.follow_swarm) worker.follow_swarm(1);
  const bool late = !backend.memory().on_host();
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    const double loss = worker.compute(arena.data());
    // A device returns a loss two steps late; it waits for the first two.
    if (!late || i < 2 || i >= 4) trained.losses.push_back(loss);
    worker.apply(arena, i % 3 == 0 ? 1 : 0.5);
    if (options.follow_swarm && i % 4 == 3) {
      worker.wait();
      const std::vector<float> change(16, 0.01F);
      arena.add(0, change);
      arena.wait();
      arena.count_mix();
    }
  }
  worker.wait();
  trained.parameters = contents(arena);
  return trained;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

// So many floats are a little more than three pieces of what travels at once.
constexpr std::size_t kSeveralPieces = 3 * 32 * 1024 + 77;

}  // namespace

TEST_CASE("every pass of an arena on a GPU does what the host's does", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  Random random(1);
  for (const std::size_t n : {std::size_t{1}, std::size_t{4}, std::size_t{1003}, kSeveralPieces}) {
    for (const std::size_t offset : {0, 1, 16, 27}) {
      INFO(n << " floats from " << offset);
      const std::size_t size = n + 40;
      Arena here(size), there(size, *backend);
      const std::vector<float> start = draw(random, size), own = draw(random, n), theirs = draw(random, n);
      for (Arena* arena : {&here, &there}) {
        arena->write(0, start);
        arena->mix(offset, theirs, own, 0.25F);
        arena->add(offset, own);
        arena->atomic_add(offset, theirs);
      }
      CHECK(largest_difference(contents(there), contents(here)) < 1e-6);

      std::vector<std::uint32_t> places;
      for (std::uint32_t i = 0; i < n; i += 1 + static_cast<std::uint32_t>(random.below(3)))
        places.push_back(i);
      std::vector<float> mixed_here(places.size()), mixed_there(places.size());
      const auto few_theirs = std::span(theirs).first(places.size()),
                 few_own = std::span(own).first(places.size());
      here.mix_at(offset, places, few_theirs, few_own, 0.5F, mixed_here);
      there.mix_at(offset, places, few_theirs, few_own, 0.5F, mixed_there);
      CHECK(largest_difference(mixed_there, mixed_here) < 1e-6);
      CHECK(largest_difference(contents(there), contents(here)) < 1e-6);
    }
  }
}

TEST_CASE("reading a GPU's arena finds the largest magnitude, whatever it is", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  Arena arena(kSeveralPieces, *backend);
  std::vector<float> values(kSeveralPieces, 0.5F), read(kSeveralPieces);
  CHECK(arena.read(0, read) == 0.0F);
  for (const std::size_t place : {std::size_t{0}, std::size_t{40'000}, kSeveralPieces - 1}) {
    values[place] = -3;
    arena.write(0, values);
    CHECK(arena.read(0, read) == 3.0F);
    CHECK(read == values);
    values[place] = std::numeric_limits<float>::infinity();
    arena.write(0, values);
    CHECK(arena.read(0, read) == std::numeric_limits<float>::infinity());
    values[place] = std::numeric_limits<float>::quiet_NaN();
    arena.write(0, values);
    CHECK(std::isnan(arena.read(0, read)));
    values[place] = 0.5F;
  }
}

TEST_CASE("ten steps of LeNet on a GPU have the host's losses", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  const auto data = quarters(60, 1, 28);
  const auto plan = std::move(models::make_model("lenet", {1, 28, 28}, 4)).value();
  const Trained expected = train(*host, plan, data, 10, {});
  const Trained actual = train(*backend, plan, data, 12, {});  // the last two tell those of the ten
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    INFO("step " << i);
    CHECK(near(actual.losses[i], expected.losses[i], 1e-3));
  }
}

TEST_CASE("a worker on a GPU ends where the host's does, whatever its optimizer and where its samples lie",
          "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  using namespace models;
  const auto plan = make_plan(
      {"small",
       {3, 8, 8},
       {Convolution{6, 3, 1, 1, 1, false}, BatchNorm{}, Relu{},
        Residual{{Convolution{6, 3, 1, 1}, GroupNorm{2}}}, Relu{}, MaxPool{2}, Dropout{0.2}, Linear{4}}});
  REQUIRE(plan.ok());
  const Arena::SgdStep nesterov{.learning_rate = 0.02F, .momentum = 0.9F, .nesterov = true};
  const Arena::AdamWStep adamw{.learning_rate = 0.005F, .weight_decay = 0.1F};
  const Augmentation changes{2, true};
  int number = 0;
  for (const Options& options :
       {Options{}, Options{.optimizer = nesterov, .kept = false}, Options{.optimizer = adamw},
        Options{.follow_swarm = true}, Options{.augmentation = changes},
        Options{.kept = false, .augmentation = changes}, Options{.recompute = true}}) {
    for (const bool floats : {false, true}) {
      if (floats && kSanitized) continue;
      INFO("options " << number << ", floats " << floats);
      const auto data = quarters(50, 3, 8, floats);
      const Trained expected = train(*host, *plan, data, 9, options);
      const Trained actual = train(*backend, *plan, data, 9, options);
      CHECK(largest_difference(actual.parameters, expected.parameters) < 2e-3);
      CHECK(largest_difference(expected.parameters, train(*host, *plan, data, 1, options).parameters) > 2e-2);
    }
    ++number;
  }
}

TEST_CASE("a worker that is renewed on a GPU forgets what its optimizer remembers", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto data = quarters(50, 1, 6);
  const auto plan = std::move(models::make_model("softmax", {1, 6, 6}, 4)).value();
  Arena arena(plan.layout.arena_size(), *backend);
  Worker worker(plan, *backend, data, BatchSampler(all_of(data), Random(4)),
                {12, Arena::SgdStep{.learning_rate = 0.1F, .momentum = 0.9F}});
  for (int i = 0; i < 3; ++i) {
    worker.compute(arena.data());
    worker.apply(arena);
  }
  worker.wait();
  const std::vector<float> before = contents(arena);
  worker.renew();
  worker.apply(arena, 0.0);  // were there a velocity, the gradient would come on top of it: v = 0.9 v + g
  worker.apply(arena, 1.0);
  worker.wait();
  const std::vector<float> after = contents(arena);
  // Twice the same gradient with a fresh velocity: v = g, then v = 1.9 g; the second alone moves the arena.
  worker.renew();
  worker.apply(arena, 1.0);
  worker.wait();
  const std::vector<float> again = contents(arena);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double g = static_cast<double>(after[i]) - static_cast<double>(again[i]);  // 0.1 g
    CHECK(near(static_cast<double>(before[i]) - static_cast<double>(after[i]), 1.9 * g, 1e-4));
  }
}

TEST_CASE("a judge on a GPU finds what the host's finds", "[gpu]") {
  const auto host = std::move(kernels::make_backend("cpu")).value();
  const auto data = quarters(101, 1, 28);
  const auto plan = std::move(models::make_model("lenet", {1, 28, 28}, 4)).value();
  Arena here(plan.layout.arena_size());
  models::initialize(plan, Random(8), here);
  const auto expected = Evaluator(plan, *host, data, 32).evaluate(here.data());
  for (const auto precision : {kernels::Precision::f32, kernels::Precision::bf16, kernels::Precision::tf32}) {
    const auto backend = gpu_backend(precision);
    if (!backend) return;
    Arena there(plan.layout.arena_size(), *backend);
    models::initialize(plan, Random(8), there);
    const auto actual = Evaluator(plan, *backend, data, 32).evaluate(there.data());
    CHECK(near(actual.loss, expected.loss, precision == kernels::Precision::f32 ? 1e-4 : 1e-2));
    CHECK(std::abs(actual.accuracy - expected.accuracy) <=
          (precision == kernels::Precision::f32 ? 0.0 : 0.05));
  }
}

TEST_CASE("exchanges and workers that come and go leave no memory behind on a GPU", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto free_bytes = [] { return kernels::gpu_module()->devices()->front().free_bytes; };
  const auto data = quarters(60, 1, 28);
  const auto plan = std::move(models::make_model("mlp", {1, 28, 28}, 4)).value();
  Arena arena(plan.layout.arena_size(), *backend);
  const auto join = [&] {
    Worker worker(plan, *backend, data, BatchSampler(all_of(data), Random(4)),
                  {12, Arena::SgdStep{.learning_rate = 0.01F, .momentum = 0.9F}, {}, keep(data, *backend)});
    for (int i = 0; i < 3; ++i) {
      worker.compute(arena.data());
      worker.apply(arena);
    }
    worker.wait();
  };
  join();  // what a library keeps for itself it has taken then
  const std::size_t before = free_bytes();
  std::vector<float> own(1000), theirs(1000, 0.5F);
  for (int i = 0; i < 1000; ++i) {
    arena.read(static_cast<std::size_t>(i), own);
    arena.mix(static_cast<std::size_t>(i), theirs, own, 0.5F);
  }
  arena.wait();
  for (std::uint64_t i = 0; i < seeds(50); ++i) join();
  arena.wait();
  CHECK(free_bytes() >= before);
}

}  // namespace starling::training
