#include "bench/crew.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "base/random.h"
#include "kernels/by_name/backends.h"
#include "models/network.h"
#include "training/learning/feed.h"

namespace starling::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kVocabulary = 65;
constexpr std::size_t kSamples = 4096;

// A model's usual input and batch size.
struct Diet {
  models::Shape input;
  int batch;
  int classes = 10;
};
Diet diet_of(const std::string& name) {
  if (name.starts_with("gpt") || name.starts_with("llama")) return {{1, 1, 1, 1}, 12, kVocabulary};
  const bool color = name.starts_with("resnet") || name.starts_with("vgg");
  return color ? Diet{{3, 32, 32}, 32} : Diet{{1, 28, 28}, 64};
}

datasets::Dataset noise(const models::Shape& shape, int classes) {
  datasets::Dataset data;
  data.classes = classes;
  if (shape.tokens > 0) {
    Random random(2);
    data.tokens.resize(kSamples * static_cast<std::size_t>(shape.tokens) + 1);
    for (auto& token : data.tokens) token = static_cast<std::uint16_t>(random.below(kVocabulary));
    data.set_context(static_cast<std::uint32_t>(shape.tokens));
    return data;
  }
  data.shape = {shape.channels, shape.height, shape.width};
  data.normalization.assign(static_cast<std::size_t>(shape.channels), {.mean = 0.5F, .deviation = 0.25F});
  Random random(2);
  data.images.resize(kSamples * static_cast<std::size_t>(shape.size()));
  for (auto& value : data.images) value = static_cast<std::uint8_t>(random.below(256));
  data.labels.resize(kSamples);
  for (auto& label : data.labels)
    label = static_cast<std::uint8_t>(random.below(static_cast<std::uint64_t>(classes)));
  return data;
}

// The warm-up: recordings, caches and device clocks are ready after it.
constexpr int kWarmSteps = 3;
constexpr std::chrono::milliseconds kWarmDevice{250};

}  // namespace

std::optional<kernels::Precision> parse_precision(std::string_view name) {
  if (name == "f32") return kernels::Precision::f32;
  if (name == "bf16") return kernels::Precision::bf16;
  if (name == "tf32") return kernels::Precision::tf32;
  return std::nullopt;
}

Result<std::unique_ptr<Replica>> Replica::make(const Recipe& recipe) {
  const Diet diet = diet_of(recipe.model);
  auto plan = models::make_model(recipe.model, diet.input, diet.classes);
  if (!plan) return plan.error();
  auto backend = kernels::make_backend(recipe.backend, recipe.precision);
  if (!backend) return backend.error();
  const int batch = recipe.batch > 0 ? recipe.batch : diet.batch;
  return std::unique_ptr<Replica>(new Replica(std::move(*plan), std::move(*backend), batch));
}

Replica::Replica(models::Plan plan, std::unique_ptr<kernels::Backend> backend, int batch)
    : plan_(std::move(plan)),
      backend_(std::move(backend)),
      batch_(batch),
      data_(noise(plan_.spec.input, plan_.classes)),
      kept_(training::keep(data_, *backend_)),
      arena_(plan_.layout.arena_size(), *backend_) {
  std::vector<float> start(arena_.size());
  models::initialize(plan_, Random(1), start);
  arena_.write(0, start);
}

std::unique_ptr<training::Worker> Replica::make_worker(std::uint64_t seed) const {
  std::vector<std::uint32_t> shard(data_.size());
  std::iota(shard.begin(), shard.end(), 0U);
  // A learning rate so small that noise teaches nothing and values keep their usual range.
  training::Optimizer step = models::Arena::SgdStep{.learning_rate = 1e-6F, .momentum = 0.9F};
  if (data_.is_text()) step = models::Arena::AdamWStep{.learning_rate = 1e-6F, .weight_decay = 0.1F};
  return std::make_unique<training::Worker>(
      plan_, *backend_, data_, training::BatchSampler(std::move(shard), Random(seed)),
      training::WorkerOptions{static_cast<std::uint32_t>(batch_), step, models::NetworkOptions{}, kept_});
}

std::size_t Replica::network_bytes() const {
  return models::Network(plan_, *backend_, batch_, models::NetworkUse::train).memory().total();
}

Crew::Crew(Replica& replica, int workers, long steps) : batch_(replica.batch()), ready_(workers) {
  for (int w = 0; w < workers; ++w) {
    threads_.emplace_back([this, &replica, w, steps] {
      try {
        work(replica, static_cast<std::uint64_t>(w) + 3, steps);
      } catch (const kernels::DeviceError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(1);
      }
    });
  }
  ready_.wait();
}

void Crew::work(Replica& replica, std::uint64_t seed, long steps) {
  const auto worker = replica.make_worker(seed);
  models::Arena& arena = replica.arena();
  const auto step = [&] {
    worker->feed(arena);
    worker->land();
  };
  if (steps == 0) {
    const auto begin = Clock::now();
    for (int i = 0; i < kWarmSteps || (replica.on_device() && Clock::now() - begin < kWarmDevice); ++i)
      step();
    worker->wait();
  }
  ready_.count_down();
  begin_.wait();
  for (long i = 0; !stopped_ && (steps == 0 || i < steps); ++i) {
    step();
    ++steps_;
  }
  worker->wait();
}

void Crew::finish() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Crew::stop() {
  stopped_ = true;
  if (!begin_.try_wait()) begin_.count_down();
  finish();
}

}  // namespace starling::bench
