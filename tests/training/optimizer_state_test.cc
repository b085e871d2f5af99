// What an optimizer's state adds to the arena's passes: which tensors decay, and clipping by the global norm.
// The last test compares whole steps of AdamW with PyTorch's.
#include "training/learning/optimizer_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/by_name/backends.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/training/near.h"
#include "tests/training/vectors.h"
#include "training/learning/worker.h"
#include "training/runs/experiment/schedule.h"

namespace starling::training {
namespace {

using models::Arena;

// Three classes of rows of noise.
datasets::Dataset noisy_rows(std::size_t n) {
  datasets::Dataset data;
  data.shape = {1, 4, 4};
  data.classes = 3;
  data.normalization = {{0.4F, 0.25F}};
  Random random(n);
  for (std::size_t i = 0; i < n; ++i) {
    data.labels.push_back(static_cast<std::uint8_t>(random.below(3)));
    for (int k = 0; k < 16; ++k) data.images.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  return data;
}

models::Plan plan_with_statistics() {
  auto plan = models::make_plan(
      {"small", {1, 4, 4}, {models::Convolution{4, 3, 1, 1}, models::BatchNorm{}, models::Linear{3}}});
  REQUIRE(plan.ok());
  return std::move(*plan);
}

}  // namespace

TEST_CASE("weight decay applies to tensors with two or more dimensions, but not to statistics") {
  models::Layout layout;
  layout.append("a.weight", {5, 7});  // 35 floats in 3 blocks
  layout.append("a.bias", {5});
  layout.append("b.weight", {2, 1, 3, 3});
  layout.append("c.weight", {16, 1});
  layout.append("norm.weight", {17});
  layout.append("norm.bias", {17});
  layout.append(models::Tensor{"norm.mean", {17, 1}, 0, 0, false});
  CHECK(decayed_blocks(layout) == std::vector<std::uint8_t>{1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("with AdamW only matrices shrink without a gradient, with SGD all tensors do") {
  const models::Plan plan = plan_with_statistics();
  const models::Layout& layout = plan.layout;
  const std::vector<float> ones(layout.arena_size(), 1.0F), zeros(layout.trained_size(), 0.0F);
  const auto stepped = [&](const Optimizer& optimizer) {
    OptimizerState state(optimizer, layout, 0, kernels::host_memory(), kernels::host_queue());
    Arena arena(layout.arena_size());
    arena.write(0, ones);
    state.apply(arena, zeros, 0.5, kernels::host_queue());
    std::vector<float> x(arena.size());
    arena.read(0, x);
    return x;
  };
  const auto adamw = stepped(Arena::AdamWStep{.learning_rate = 0.1F, .weight_decay = 0.5F}),
             sgd = stepped(Arena::SgdStep{.learning_rate = 0.1F, .weight_decay = 0.5F});
  for (const models::Tensor& tensor : layout.tensors()) {
    INFO(tensor.name);
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      REQUIRE(near(adamw[i], tensor.trained && tensor.shape.size() >= 2 ? 0.975 : 1, 1e-7));
      REQUIRE(near(sgd[i], tensor.trained ? 0.975 : 1, 1e-7));
    }
  }
}

TEST_CASE("a worker clips the gradient of all trained tensors by its norm, and no running statistics") {
  const auto data = noisy_rows(60);
  const models::Plan plan = plan_with_statistics();
  const std::size_t n = plan.layout.arena_size(), trained = plan.layout.trained_size();
  REQUIRE(trained < n);
  std::vector<float> start(n);
  models::initialize(plan, Random(3), start);
  for (const std::string& name : kernels::backend_names()) {
    INFO(name);
    const auto backend = std::move(kernels::make_backend(name)).value();
    const auto change = [&](float clip_norm) {
      Arena arena(n, *backend);
      arena.write(0, start);
      Worker worker(plan, *backend, data, BatchSampler(all_of(data), Random(4)),
                    {16, Arena::SgdStep{.learning_rate = 1}, {}, nullptr, clip_norm});
      worker.feed(arena);
      worker.land();
      worker.wait();
      std::vector<float> x(n);
      arena.read(0, x);
      for (std::size_t i = 0; i < n; ++i) x[i] -= start[i];
      return x;
    };
    const std::vector<float> whole = change(0);
    double squares = 0;
    for (std::size_t i = 0; i < trained; ++i) squares += double{whole[i]} * double{whole[i]};
    const double norm = std::sqrt(squares);
    REQUIRE(norm > 0.1);
    CHECK(largest_difference(change(static_cast<float>(2 * norm)), whole) == 0);
    const std::vector<float> half = change(static_cast<float>(norm / 2));
    for (std::size_t i = 0; i < n; ++i) REQUIRE(near(half[i], i < trained ? whole[i] / 2 : whole[i], 1e-5));
    CHECK(std::any_of(whole.begin() + static_cast<std::ptrdiff_t>(trained), whole.end(),
                      [](float x) { return x != 0; }));
  }
}

TEST_CASE("a gradient that is not finite makes the replica not finite, clipped or not") {
  models::Layout layout;
  layout.append("weight", {4, 4});
  layout.append("bias", {4});
  for (const Optimizer& optimizer : {Optimizer(Arena::SgdStep{.learning_rate = 0.1F}),
                                     Optimizer(Arena::AdamWStep{.learning_rate = 0.1F})}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      OptimizerState state(optimizer, layout, 1, kernels::host_memory(), kernels::host_queue());
      Arena arena(layout.arena_size());
      std::vector<float> gradient(layout.trained_size(), 0.5F), x(layout.arena_size());
      gradient[3] = bad;
      state.apply(arena, gradient, 1, kernels::host_queue());
      CHECK_FALSE(std::isfinite(arena.read(0, x)));
    }
  }
}

namespace {

// The numbers of scripts/pytorch_losses.py: splitmix64, 24 bits per draw.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  float uniform(double bound) {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    const double unit = static_cast<double>((z ^ (z >> 31)) >> 40) / (1 << 24);
    return static_cast<float>((2 * unit - 1) * bound);
  }

 private:
  std::uint64_t state_;
};

// scripts/pytorch_losses.py printed the numbers with PyTorch 1.13.1: torch.optim.AdamW with two groups of
// parameters, clip_grad_norm_ and a warm-up. Two in three gradients are clipped.
void check_steps_of_adamw(const kernels::Backend& backend) {
  models::Layout layout;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{6, 5}, {6}, {3, 2, 3}, {3}})
    layout.append("t" + std::to_string(layout.tensors().size()), shape);
  Experiment experiment;
  experiment.schedule.warmup = {5, Warmup::Unit::steps};
  const auto schedule = make_schedule(experiment, 1);
  REQUIRE(schedule.ok());
  SplitMix draws(2);
  const auto draw_all = [&](double bound) {
    std::vector<float> values(layout.arena_size());
    for (const models::Tensor& tensor : layout.tensors())
      for (std::size_t i = 0; i < tensor.size; ++i) values[tensor.offset + i] = draws.uniform(bound);
    return values;
  };
  const auto queue = backend.make_queue();
  Arena arena(layout.arena_size(), backend);
  arena.write(0, draw_all(1));
  const Arena::AdamWStep adamw{.learning_rate = 0.01F, .beta2 = 0.99F, .weight_decay = 0.5F};
  OptimizerState state(adamw, layout, 1, backend.memory(), *queue);
  kernels::Buffer gradient(layout.trained_size(), backend.memory());
  for (std::uint64_t step = 1; step <= 10; ++step) {
    const std::vector<float> values = draw_all(step % 3 == 1 ? 0.1 : 2);
    queue->upload(values.data(), gradient.data(), gradient.bytes());
    state.apply(arena, gradient.values(), own_factor(*schedule, step), *queue);
    queue->wait();
  }
  std::vector<float> x(layout.arena_size());
  arena.read(0, x);
  const std::vector<std::vector<double>> expected = {
      {0.1326967, 0.4465647, 0.1741891, 0.5300950, -0.4124973, -0.3093229},
      {0.7431077, 0.1803785, -0.4615277, -0.3046954, 0.7780499, -0.3255903},
      {-0.4233849, -0.9226682, 0.8046110, -0.5880895, 0.5732478, -0.6338810},
      {0.2430219, -0.5528132, 0.1938465},
  };
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      const float actual = x[layout.tensors()[k].offset + i];
      INFO("tensor " << k << ", element " << i << ": " << actual << ", PyTorch's is " << expected[k][i]);
      CHECK(near(actual, expected[k][i], 1e-6));
    }
  }
}

}  // namespace

TEST_CASE("ten steps of AdamW with clipping, weight decay of matrices and a warm-up equal PyTorch's") {
  for (const std::string& name : kernels::backend_names()) {
    INFO(name);
    check_steps_of_adamw(*std::move(kernels::make_backend(name)).value());
  }
}

TEST_CASE("the same steps on a GPU equal PyTorch's", "[gpu]") {
  if (const auto backend = kernels::gpu_backend()) check_steps_of_adamw(*backend);
}

}  // namespace starling::training
