// A replica on a GPU compared with the same one on the host: the arena's passes, workers with recorded steps,
// samples on the device or copied to it, optimizers, and the evaluation. Skipped with a warning if there is
// no GPU, not even the emulated one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "datasets/dataset.h"
#include "kernels/by_name/backends.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/seeds.h"
#include "tests/training/near.h"
#include "tests/training/vectors.h"
#include "training/learning/evaluator.h"
#include "training/learning/worker.h"

namespace starling::training {
namespace {

using kernels::gpu_backend;
using models::Arena;

std::vector<float> values_of(const Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Images of random pixels (or floats). The label is the brightest quarter.
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

// A text in which each token mostly follows from the one before.
datasets::Dataset chain_of_tokens(std::uint32_t windows, std::uint32_t context) {
  datasets::Dataset data;
  data.classes = 17;
  Random random(context);
  std::uint64_t token = 3;
  for (std::uint32_t i = 0; i <= windows * context; ++i) {
    data.tokens.push_back(static_cast<std::uint16_t>(token));
    token = (3 * token + random.below(2)) % 17;
  }
  data.set_context(context);
  return data;
}

struct Options {
  Optimizer optimizer = Arena::SgdStep{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-3F};
  bool kept = true;  // the samples are on the device
  bool follow_swarm = false;
  Augmentation augmentation{};
  bool recompute = false;
  float clip_norm = 0;
};

struct TrainedOnGpu {
  std::vector<double> losses;
  std::vector<float> parameters;
};

TrainedOnGpu train(const kernels::Backend& backend, const models::Plan& plan, const datasets::Dataset& data,
                   int steps, const Options& options) {
  Arena arena(plan.layout.arena_size(), backend);
  models::initialize(plan, Random(3), arena);
  WorkerOptions its{.batch_size = 12,
                    .optimizer = options.optimizer,
                    .network = models::NetworkOptions{7, options.recompute},
                    .kept = options.kept ? keep(data, backend) : nullptr,
                    .clip_norm = options.clip_norm,
                    .follow_swarm = options.follow_swarm ? 1U : 0U};
  if (options.augmentation.any()) its.augmenter.emplace(data, options.augmentation, Random(5));
  Worker worker(plan, backend, data, BatchSampler(all_of(data), Random(4)), its);
  const bool late = !backend.memory().on_host();
  TrainedOnGpu trained;
  for (int i = 0; i < steps; ++i) {
    worker.feed(arena);
    worker.set_rate([i] { return i % 3 == 0 ? 1 : 0.5; });
    const double loss = worker.land().value();
    // A device returns a loss two steps late; it waits for the first two.
    if (!late || i < 2 || i >= 4) trained.losses.push_back(loss);
    if (options.follow_swarm && i % 4 == 3) {
      worker.wait();
      const std::vector<float> change(16, 0.01F);
      arena.add(0, change);
      arena.wait();
      arena.count_mix();
    }
  }
  worker.wait();
  trained.parameters = values_of(arena);
  return trained;
}

// A little more than three blocks of a transfer.
constexpr std::size_t kSeveralPieces = 3 * 32 * 1024 + 77;

}  // namespace

TEST_CASE("every pass of an arena on a GPU has the host's result", "[gpu]") {
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
      CHECK(largest_difference(values_of(there), values_of(here)) < 1e-6);

      std::vector<std::uint32_t> places;
      for (std::uint32_t i = 0; i < n; i += 1 + static_cast<std::uint32_t>(random.below(3)))
        places.push_back(i);
      std::vector<float> mixed_here(places.size()), mixed_there(places.size());
      const auto few_theirs = std::span(theirs).first(places.size()),
                 few_own = std::span(own).first(places.size());
      here.mix_at(offset, places, few_theirs, few_own, 0.5F, mixed_here);
      there.mix_at(offset, places, few_theirs, few_own, 0.5F, mixed_there);
      CHECK(largest_difference(mixed_there, mixed_here) < 1e-6);
      CHECK(largest_difference(values_of(there), values_of(here)) < 1e-6);
    }
  }
}

namespace {

// A device's vectors for steps: the gradient, which of its blocks decay, and how it is clipped.
struct Steps {
  Steps(std::size_t n, const kernels::Backend& backend, const std::vector<float>& start,
        const std::vector<float>& gradient_values, const std::vector<std::uint8_t>& decay_values)
      : queue(backend.make_queue()),
        memory(backend.memory()),
        arena(n, backend),
        gradient(n, memory),
        decays(decay_values.size() / sizeof(float) + 1, memory),
        clip(memory) {
    arena.write(0, start);
    queue->upload(gradient_values.data(), gradient.data(), gradient.bytes());
    queue->upload(decay_values.data(), decays.data(), decay_values.size());
    queue->wait();
  }

  float gain(float limit) {
    Arena::Clip read;
    arena.clip(gradient.values(), limit, clip.get(), *queue);
    queue->download(clip.get(), &read, sizeof read);
    queue->wait();
    return read.gain;
  }
  // One step of each optimizer, with the latest gain.
  std::vector<float> make() {
    const std::size_t n = gradient.size();
    kernels::Buffer velocity(n, memory), mean(n, memory), square(n, memory);
    const Arena::SgdStep sgd{
        .learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.1F, .gain = &clip.get()->gain};
    arena.sgd(gradient.values(), velocity.values(), sgd, *queue);
    arena.sgd_along(gradient.values(), velocity.values(), sgd, *queue);
    const Arena::AdamWStep adamw{.learning_rate = 0.1F,
                                 .epsilon = 0.1F,
                                 .weight_decay = 0.5F,
                                 .gain = &clip.get()->gain,
                                 .decays = reinterpret_cast<const std::uint8_t*>(decays.data())};
    arena.adamw(gradient.values(), mean.values(), square.values(), adamw, 1, *queue);
    queue->wait();
    return values_of(arena);
  }

  std::unique_ptr<kernels::Queue> queue;
  kernels::Memory& memory;
  Arena arena;
  kernels::Buffer gradient, decays;
  kernels::Staged<Arena::Clip> clip;
};

}  // namespace

TEST_CASE("a GPU clips a gradient as the host does, and its steps have the host's results", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  Random random(2);
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{1003}, kSeveralPieces}) {
    INFO(n << " floats");
    const std::vector<float> start = draw(random, n), gradient = draw(random, n);
    std::vector<std::uint8_t> decays((n + kernels::kDecayBlock - 1) / kernels::kDecayBlock);
    for (auto& decay : decays) decay = random.chance(0.5) ? 1 : 0;
    for (const float limit : {0.01F, 1e6F}) {
      Steps here(n, *host, start, gradient, decays), there(n, *backend, start, gradient, decays);
      const float gain = here.gain(limit);
      CHECK((gain == 1) == (limit > 1));
      CHECK(near(there.gain(limit), gain, 1e-6 * gain));
      CHECK(there.gain(limit) == there.gain(limit));
      CHECK(largest_difference(there.make(), here.make()) < 1e-6);
    }
  }
}

TEST_CASE("a GPU leaves a gradient that is not finite unclipped", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> gradient(1003, 3.0F);
    gradient[700] = bad;
    CHECK(Steps(1003, *backend, gradient, gradient, {1}).gain(1) == 1);
  }
}

TEST_CASE("reading a GPU's arena finds the largest magnitude, even if not finite", "[gpu]") {
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

TEST_CASE("ten steps of LeNet on a GPU have the host's losses", "[gpu][figures]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  const auto data = quarters(60, 1, 28);
  const auto plan = std::move(models::make_model("lenet", {1, 28, 28}, 4)).value();
  const TrainedOnGpu expected = train(*host, plan, data, 10, {});
  const TrainedOnGpu actual =
      train(*backend, plan, data, 12, {});  // two more return the ninth and tenth loss
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    INFO("step " << i);
    CHECK(near(actual.losses[i], expected.losses[i], 1e-3));
  }
}

TEST_CASE("small Transformers on a GPU have the host's losses in steps and in an evaluation",
          "[gpu][figures]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  const auto data = chain_of_tokens(21, 64);
  Options options{.optimizer = Arena::AdamWStep{.learning_rate = 0.005F, .weight_decay = 0.1F}};
  options.augmentation.shift = true;
  options.clip_norm = 1;
  for (const char* name : some_of({"gpt-tiny", "llama-tiny"})) {
    INFO(name);
    const auto plan = std::move(models::make_model(name, {1, 1, 1, 64}, data.classes)).value();
    const TrainedOnGpu expected = train(*host, plan, data, 4, options);
    const TrainedOnGpu actual = train(*backend, plan, data, 6, options);  // two more return the last losses
    REQUIRE(actual.losses.size() == expected.losses.size());
    CHECK(expected.losses.back() < 0.9 * expected.losses.front());
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      INFO("step " << i);
      CHECK(near(actual.losses[i], expected.losses[i], 1e-3));
    }
    Arena here(plan.layout.arena_size()), there(plan.layout.arena_size(), *backend);
    here.write(0, expected.parameters);
    there.write(0, expected.parameters);
    const auto judged = Evaluator(plan, *host, data, 8).evaluate(here.data());
    CHECK(near(Evaluator(plan, *backend, data, 8).evaluate(there.data()).loss, judged.loss, 1e-4));
  }
}

TEST_CASE("a worker on a GPU ends where the host's does, for every optimizer and place of samples", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto host = std::move(kernels::make_backend("cpu")).value();
  using namespace models;
  const auto plan = models::make_plan(
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
        Options{.kept = false, .augmentation = changes}, Options{.recompute = true},
        Options{.optimizer = adamw, .clip_norm = 0.5F}, Options{.follow_swarm = true, .clip_norm = 0.5F}}) {
    for (const bool floats : {false, true}) {
      if (kSanitized && (floats || number % 2 == 1)) continue;
      INFO("options " << number << ", floats " << floats);
      const auto data = quarters(50, 3, 8, floats);
      const TrainedOnGpu expected = train(*host, *plan, data, 9, options);
      const TrainedOnGpu actual = train(*backend, *plan, data, 9, options);
      CHECK(largest_difference(actual.parameters, expected.parameters) < 2e-3);
      CHECK(largest_difference(expected.parameters, train(*host, *plan, data, 1, options).parameters) > 2e-2);
    }
    ++number;
  }
}

TEST_CASE("a worker that is renewed on a GPU resets its optimizer's state", "[gpu]") {
  const auto backend = gpu_backend();
  if (!backend) return;
  const auto data = quarters(48, 1, 6);
  const auto plan = std::move(models::make_model("softmax", {1, 6, 6}, 4)).value();
  Arena arena(plan.layout.arena_size(), *backend);
  Worker worker(plan, *backend, data, BatchSampler(all_of(data), Random(4)),
                {48, Arena::SgdStep{.learning_rate = 0.1F, .momentum = 0.9F}});
  const auto step = [&](double factor) {
    worker.set_rate([factor] { return factor; });
    worker.feed(arena);
    worker.land();
    worker.wait();
    return values_of(arena);
  };
  for (int i = 0; i < 2; ++i) step(1);
  const std::vector<float> before = step(1);
  // A batch has all samples. The same gradient twice with a fresh velocity: v = g, then v = 1.9 g; only the
  // second moves the arena. With a velocity left, the gradient would be added to it.
  worker.renew();
  step(0);
  const std::vector<float> twice = step(1);
  arena.write(0, before);
  worker.renew();
  const std::vector<float> once = step(1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double g = static_cast<double>(before[i]) - static_cast<double>(once[i]);  // 0.1 g
    CHECK(near(static_cast<double>(before[i]) - static_cast<double>(twice[i]), 1.9 * g, 1e-4));
  }
}

TEST_CASE("an evaluation on a GPU has the host's result", "[gpu]") {
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
      worker.feed(arena);
      worker.land();
    }
    worker.wait();
  };
  join();  // afterwards the libraries have allocated their own memory
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
