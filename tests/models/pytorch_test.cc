// The first ten losses of two networks compared with PyTorch's, from the same parameters and batches.
// scripts/pytorch_losses.py printed the numbers with PyTorch 1.13.1 and defines how parameters and batches
// are drawn.
#include <array>
#include <cmath>
#include <vector>

#include "kernels/by_name/backends.h"
#include "models/arena.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/models/stream.h"
#include "tests/seeds.h"

namespace starling::models {
namespace {

constexpr int kSteps = 10;

// The reference is slow, so it makes fewer steps.
std::vector<double> losses(const std::string& model, Shape input, int batch,
                           const std::string& backend_name) {
  const Plan plan = std::move(make_model(model, input, 10)).value();
  const auto backend = std::move(kernels::make_backend(backend_name)).value();
  Stream stream(1);
  std::vector<float> start(plan.layout.arena_size());
  for (const Tensor& tensor : plan.layout.tensors()) {
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      start[i] = tensor.start == Tensor::Start::uniform ? stream.uniform(tensor.bound)
                                                        : static_cast<float>(tensor.bound);
    }
  }
  Arena arena(start.size());
  arena.write(0, start);
  Network network(plan, *backend, batch, NetworkUse::train);
  std::vector<float> gradient(start.size()), velocity(plan.layout.trained_size());
  std::vector<float> inputs(static_cast<std::size_t>(batch * input.size()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  std::vector<double> result(backend_name == "reference" && !all_seeds() ? 3 : kSteps);
  for (double& loss : result) {
    for (float& x : inputs) x = stream.uniform(1);
    for (std::int32_t& label : labels) label = static_cast<std::int32_t>(stream.bits() % 10);
    loss = network.train(arena.data(), inputs.data(), labels.data(), gradient.data());
    arena.sgd(std::span<const float>(gradient).first(velocity.size()), velocity,
              {.learning_rate = 0.05F, .momentum = 0.9F});
  }
  return result;
}

void check(const std::vector<double>& actual, const std::array<double, kSteps>& expected, double tolerance) {
  for (std::size_t step = 0; step < actual.size(); ++step) {
    INFO("step " << step << ": " << actual[step] << ", PyTorch's is " << expected[step]);
    CHECK(near(actual[step], expected[step], tolerance));
  }
}

}  // namespace

TEST_CASE("LeNet's first ten losses equal PyTorch's", "[figures]") {
  for (const std::string& name : kernels::backend_names()) {
    INFO(name);
    check(losses("lenet", {1, 28, 28}, 64, name),
          {2.3079469, 2.2979634, 2.3051908, 2.2990813, 2.3114090, 2.3016791, 2.2966912, 2.3064897, 2.2932341,
           2.3067801},
          2e-5);
  }
}

// Its first steps, at a rate that is high for it, magnify rounding errors.
TEST_CASE("a residual network's first ten losses, with batch normalization, equal PyTorch's", "[figures]") {
  for (const std::string& name : kernels::backend_names()) {
    INFO(name);
    check(losses("resnet8", {3, 32, 32}, 16, name),
          {2.3561342, 2.3195586, 2.3492622, 2.2258291, 2.1692002, 2.3290412, 2.7497237, 2.4843464, 2.5030768,
           2.7288182},
          1e-3);
  }
}

}  // namespace starling::models
