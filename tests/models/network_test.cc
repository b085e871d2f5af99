// Whole networks: their gradient against finite differences, one back end against the other, and learning.
#include "models/network.h"
#include "kernels/by_name/backends.h"

#include <cmath>
#include <map>
#include <thread>

#include "kernels/cpu/lanes/kernels.h"
#include "models/arena.h"
#include "models/lowering.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/models/allocations.h"
#include "tests/models/plans.h"

namespace starling::models {
namespace {

std::vector<float> start(const Plan& plan, std::uint64_t seed) {
  std::vector<float> parameters(plan.layout.arena_size());
  initialize(plan, Random(seed), parameters);
  return parameters;
}

}  // namespace

TEST_CASE("a network's gradient is the derivative of its loss") {
  // Along random directions: (L(p + h d) - L(p - h d)) / 2h = gradient . d. A ReLU's kink between the two
  // points makes the quotient wrong, so one direction in five may be off.
  Random random(41);
  for (const Plan& plan : assorted_plans()) {
    INFO(plan.spec.name);
    const int batch = 6;
    Network network(plan, backend("reference"), batch, NetworkUse::train);
    const Batch data = random_batch(random, plan, batch);
    const std::vector<float> at = start(plan, 42);
    std::vector<float> gradient(at.size(), 0.0F), moved(at.size()), unused(at.size());
    network.train(at.data(), data.inputs.data(), data.labels.data(), gradient.data());
    const auto loss = [&](const std::vector<double>& direction, double h) {
      for (std::size_t i = 0; i < at.size(); ++i) moved[i] = static_cast<float>(at[i] + h * direction[i]);
      return network.train(moved.data(), data.inputs.data(), data.labels.data(), unused.data());
    };
    int right = 0;
    for (int round = 0; round < 20; ++round) {
      // Half of the directions move a single tensor, so that a larger one does not hide it.
      std::vector<Tensor> tensors = plan.layout.tensors();
      std::erase_if(tensors, [](const Tensor& tensor) { return !tensor.trained; });
      const Tensor& only = tensors[static_cast<std::size_t>(round) % tensors.size()];
      std::vector<double> direction(at.size(), 0.0);
      double norm = 0, expected = 0;
      for (const Tensor& tensor : tensors) {
        if (round % 2 == 0 && tensor.offset != only.offset) continue;
        for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
          direction[i] = random.normal();
          norm += direction[i] * direction[i];
        }
      }
      for (std::size_t i = 0; i < at.size(); ++i) {
        direction[i] /= std::sqrt(norm);
        expected += direction[i] * gradient[i];
      }
      const double h = 3e-4;
      const double actual = (loss(direction, h) - loss(direction, -h)) / (2 * h);
      right += std::abs(actual - expected) < 2e-4 + 5e-3 * std::abs(expected);
    }
    CHECK(right >= 16);
  }
}

TEST_CASE("back ends agree on a network's loss, gradient and evaluation") {
  Random random(43);
  std::vector<Plan> plans = assorted_plans();
  const std::size_t tiny = plans.size();
  for (const char* name : {"softmax", "mlp", "lenet", "resnet8"})
    plans.push_back(std::move(make_model(name, {1, 28, 28}, 10)).value());
  for (std::size_t round = 0; round < 2 * plans.size(); ++round) {
    const Plan& plan = plans[round / 2];
    const int batch = round % 2 == 0 ? 7 : 16;
    INFO(plan.spec.name << ", batch " << batch);
    const Batch data = random_batch(random, plan, batch);
    const std::vector<float> at = start(plan, 44);
    Network expected(plan, backend("reference"), batch, NetworkUse::train);
    Network actual(plan, backend("cpu"), batch, NetworkUse::train);
    std::vector<float> g(at.size(), 5.0F), h(at.size(), 5.0F);
    const double loss = expected.train(at.data(), data.inputs.data(), data.labels.data(), g.data());
    CHECK(near(actual.train(at.data(), data.inputs.data(), data.labels.data(), h.data()), loss, 1e-5));
    double scale = 0, worst = 0;
    std::size_t gaps = 0;
    std::vector<bool> gap(at.size(), true);
    for (const Tensor& tensor : plan.layout.tensors()) {
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) gap[i] = false;
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (gap[i]) {
        gaps += h[i] != 5.0F;
        continue;
      }
      scale = std::max(scale, std::abs(static_cast<double>(g[i])));
      worst = std::max(worst, std::abs(static_cast<double>(g[i]) - h[i]));
    }
    CHECK(gaps == 0);
    CHECK(worst < 3e-5 * scale);
    Network defined(plan, backend("reference"), batch, NetworkUse::evaluate);
    Network forward(plan, backend("cpu"), batch, NetworkUse::evaluate);
    for (const int count : {0, 1, 5, batch}) {
      const auto a = defined.evaluate(at.data(), data.inputs.data(), data.labels.data(), count);
      const auto b = forward.evaluate(at.data(), data.inputs.data(), data.labels.data(), count);
      CHECK(near(b.loss_sum, a.loss_sum, 1e-4));
      CHECK(a.correct == b.correct);
      CHECK(b.predictions == count);
    }
    // For a tiny network, the operation chosen for evaluation may pad the batch to the lanes of a wide
    // processor.
    if (round / 2 >= tiny) CHECK(forward.memory().total() < actual.memory().total());
  }
}

TEST_CASE("values that no pool reads are not computed") {
  const Plan plan = std::move(make_model("lenet", {1, 28, 28}, 10)).value();
  const Lowered lowered = lower(plan);
  CHECK(lowered.input_height == 26);
  CHECK(lowered.input_width == 26);
  REQUIRE(lowered.nodes.size() == 9);
  CHECK(std::get<kernels::ConvolutionSpec>(*lowered.nodes[0].operation).height == 24);
  CHECK(std::get<kernels::ConvolutionSpec>(*lowered.nodes[3].operation).width == 8);
}

TEST_CASE("a network that recomputes activations has the same loss and gradient, and less memory") {
  Random random(47);
  std::vector<Plan> plans = assorted_plans();
  plans.push_back(
      std::move(make_plan({"dropping",
                           {3, 8, 8},
                           {Convolution{8, 3, 1, 1}, Relu{}, Dropout{0.3}, Convolution{8, 3, 1, 1},
                            BatchNorm{}, Relu{}, Dropout{0.5}, MaxPool{2}, Convolution{8, 3, 1, 1}, Relu{},
                            Dropout{0.1}, Linear{3}}}))
          .value());
  const std::size_t deep = plans.size() - 1;
  plans.push_back(std::move(make_model("resnet8", {3, 16, 16}, 10)).value());
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const Plan& plan = plans[p];
    for (const std::string& name : kernels::backend_names()) {
      INFO(plan.spec.name << " on " << name);
      const auto& on = backend(name);
      constexpr int kBatch = 16;
      Network all(plan, on, kBatch, NetworkUse::train, {.seed = 5});
      Network few(plan, on, kBatch, NetworkUse::train, {.seed = 5, .recompute = true});
      const std::vector<float> at = start(plan, 48);
      std::vector<float> g(at.size()), h(at.size());
      for (int step = 0; step < 3; ++step) {
        const Batch data = random_batch(random, plan, kBatch);
        const double loss = all.train(at.data(), data.inputs.data(), data.labels.data(), g.data());
        CHECK(few.train(at.data(), data.inputs.data(), data.labels.data(), h.data()) == loss);
        CHECK(g == h);
      }
      CHECK(few.memory().activations_bytes <= all.memory().activations_bytes);
      if (p >= deep) {
        CHECK(static_cast<double>(few.memory().activations_bytes) <
              0.7 * static_cast<double>(all.memory().activations_bytes));
      }
    }
  }
}

TEST_CASE("the memory of the layers adds up to the network's, with any fusion and recomputation") {
  std::vector<Plan> plans = assorted_plans();
  for (const char* name : {"mlp", "lenet", "resnet8"})
    plans.push_back(std::move(make_model(name, {1, 28, 28}, 10)).value());
  const std::vector<std::pair<NetworkUse, bool>> ways = {
      {NetworkUse::train, false}, {NetworkUse::train, true}, {NetworkUse::evaluate, false}};
  for (const Plan& plan : plans) {
    for (const std::string& name : kernels::backend_names()) {
      for (const auto& [purpose, recompute] : ways) {
        INFO(plan.spec.name << " on " << name);
        const NetworkMemory memory =
            Network(plan, backend(name), 8, purpose, {.recompute = recompute}).memory();
        REQUIRE(memory.layers.size() == plan.layers.size());
        std::size_t activations = 0, workspace = memory.scratch_bytes;
        for (std::size_t i = 0; i < memory.layers.size(); ++i) {
          const LayerMemory& layer = memory.layers[i];
          activations += layer.activations_bytes;
          workspace += layer.workspace_bytes;
          const auto at = static_cast<std::size_t>(layer.counted_at);
          REQUIRE(at < memory.layers.size());
          CHECK(memory.layers[at].activations_bytes > 0);
          if (at != i && purpose == NetworkUse::train && !recompute) {
            CHECK(at > i);
            CHECK(layer.activations_bytes == 0);
          }
        }
        CHECK(activations == memory.activations_bytes);
        CHECK(workspace == memory.workspace_bytes);
        CHECK((memory.gradients_bytes > 0) == (purpose == NetworkUse::train));
      }
    }
  }
  // LeNet's first convolution, its ReLU and its pool are one operation, if our own loops support the
  // processor.
  if (kernels::cpu::lanes::kernels() == nullptr) return;
  const Plan& lenet = plans[plans.size() - 2];
  const auto layers = Network(lenet, backend("cpu"), 16, NetworkUse::train).memory().layers;
  for (const std::size_t i : {0U, 1U, 2U})
    CHECK(lenet.layers[static_cast<std::size_t>(layers[i].counted_at)].name == "pool1");
}

TEST_CASE("batch statistics update the running ones, which an evaluation uses to normalize") {
  const Plan plan =
      std::move(make_plan({"normalized", {2, 3, 3}, {BatchNorm{1e-5, 0.25}, Linear{2}}})).value();
  REQUIRE(plan.layout.parameter_count() == 4 + 2 * 18 + 2);
  const Tensor& mean = plan.layout.tensors().at(4);
  const Tensor& variance = plan.layout.tensors().at(5);
  CHECK(mean.name == "bn1.running_mean");
  CHECK(variance.name == "bn1.running_var");
  CHECK(mean.offset == plan.layout.trained_size());
  constexpr int kBatch = 8;
  Random random(50);
  const Batch data = random_batch(random, plan, kBatch);
  for (const std::string& name : kernels::backend_names()) {
    INFO(name);
    const auto& on = backend(name);
    Network train(plan, on, kBatch, NetworkUse::train), evaluate(plan, on, kBatch, NetworkUse::evaluate);
    std::vector<float> parameters = start(plan, 51), change(parameters.size());
    double loss = 0;
    for (int step = 0; step < 60; ++step) {  // (3/4)^60 of the initial values remains
      loss = train.train(parameters.data(), data.inputs.data(), data.labels.data(), change.data());
      for (const Tensor* tensor : {&mean, &variance}) {
        for (std::size_t i = tensor->offset; i < tensor->offset + tensor->size; ++i)
          parameters[i] += change[i];
      }
    }
    for (std::size_t c = 0; c < 2; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t n = 0; n < kBatch; ++n) {
        for (std::size_t k = 0; k < 9; ++k) {
          const double x = data.inputs[(n * 2 + c) * 9 + k];
          sum += x;
          squares += x * x;
        }
      }
      const double count = 9.0 * kBatch, m = sum / count;
      CHECK(near(parameters[mean.offset + c], m, 1e-5));
      CHECK(near(parameters[variance.offset + c], (squares - count * m * m) / (count - 1), 1e-5));
    }
    // Nearly the same normalization: the running variance is the unbiased one.
    const auto value = evaluate.evaluate(parameters.data(), data.inputs.data(), data.labels.data(), kBatch);
    CHECK(near(value.loss_sum / kBatch, loss, 0.02));
  }
}

TEST_CASE("a network learns to separate two blobs") {
  Random random(45);
  for (const std::string& name : kernels::backend_names()) {
    const Plan plan = std::move(make_plan({"blobs", {2, 1, 1}, {Linear{8}, Relu{}, Linear{2}}})).value();
    constexpr int kBatch = 32;
    Network network(plan, backend(name), kBatch, NetworkUse::train);
    Network evaluating(plan, backend(name), kBatch, NetworkUse::evaluate);
    const auto draw = [&] {
      Batch batch;
      for (int i = 0; i < kBatch; ++i) {
        const int label = static_cast<int>(random.below(2));
        batch.labels.push_back(label);
        batch.inputs.push_back(static_cast<float>((label == 1 ? 1.0 : -1.0) + 0.4 * random.normal()));
        batch.inputs.push_back(static_cast<float>((label == 1 ? -1.0 : 1.0) + 0.4 * random.normal()));
      }
      return batch;
    };
    Arena arena(plan.layout.arena_size());
    arena.write(0, start(plan, 46));
    std::vector<float> gradient(arena.size()), velocity(arena.size());
    double first = 0, last = 0;
    for (int i = 0; i < 100; ++i) {
      const Batch batch = draw();
      last = network.train(arena.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
      if (i == 0) first = last;
      arena.sgd(gradient, velocity, {.learning_rate = 0.1F, .momentum = 0.9F});
    }
    CHECK(last < first / 4);
    std::int64_t correct = 0;
    for (int i = 0; i < 10; ++i) {
      const Batch batch = draw();
      correct += evaluating.evaluate(arena.data(), batch.inputs.data(), batch.labels.data(), kBatch).correct;
    }
    CHECK(correct >= 10 * kBatch * 97 / 100);
  }
}

// Under ThreadSanitizer this also tests that Hogwild's races occur only where arena.h allows them.
TEST_CASE("two networks train one arena at once, without a lock, and it learns") {
  const Plan plan = std::move(make_plan({"blobs", {2, 1, 1}, {Linear{8}, Relu{}, Linear{2}}})).value();
  constexpr int kBatch = 32;
  for (const std::string& name : kernels::backend_names()) {
    Arena arena(plan.layout.arena_size());
    arena.write(0, start(plan, 46));
    const auto& on = backend(name);
    double last[2] = {9, 9};
    const auto work = [&](std::size_t worker) {
      Network network(plan, on, kBatch, NetworkUse::train);
      Random random = Random(49).split(worker);
      std::vector<float> gradient(arena.size()), velocity(arena.size());
      for (int i = 0; i < 200; ++i) {
        Batch batch;
        for (int n = 0; n < kBatch; ++n) {
          const int label = static_cast<int>(random.below(2));
          batch.labels.push_back(label);
          for (const double side : {1.0, -1.0}) {
            batch.inputs.push_back(static_cast<float>((label == 1 ? side : -side) + 0.3 * random.normal()));
          }
        }
        last[worker] = network.train(arena.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
        arena.sgd(gradient, velocity, {.learning_rate = 0.05F, .momentum = 0.9F});
      }
    };
    std::thread other(work, std::size_t{1});
    work(0);
    other.join();
    CHECK(last[0] < 0.1);
    CHECK(last[1] < 0.1);
  }
}

TEST_CASE("first parameters are a function of the seed, within their bounds, and zero in the gaps") {
  const Plan plan = std::move(make_model("lenet", {1, 28, 28}, 10)).value();
  const std::vector<float> a = start(plan, 1), b = start(plan, 1), c = start(plan, 2);
  CHECK(a == b);
  CHECK(a != c);
  double total = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    const bool conv2 = tensor.name == "conv2.weight";
    double square = 0;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      total += std::abs(a[i]);
      square += static_cast<double>(a[i]) * a[i];
      if (conv2) REQUIRE(std::abs(a[i]) <= 1 / std::sqrt(500.0));
    }
    if (conv2) CHECK(near(square / static_cast<double>(tensor.size), 1.0 / 1500, 0.05, 0));
  }
  double all = 0;
  for (const float value : a) all += std::abs(value);
  CHECK(all == total);
}

TEST_CASE("an arena starts from the same parameters as an array, and its gaps are zero too") {
  const Plan plan = std::move(make_model("resnet8", {3, 8, 8}, 10)).value();
  Arena arena(plan.layout.arena_size());
  arena.write(0, std::vector<float>(arena.size(), 5.0F));
  initialize(plan, Random(3), arena);
  CHECK(std::vector<float>(arena.data(), arena.data() + arena.size()) == start(plan, 3));
}

TEST_CASE("training and evaluation allocate nothing") {
  // Only our own loops of the cpu back end must not allocate: oneDNN allocates argument tables internally.
  struct Case {
    Plan plan;
    std::string on;
  };
  std::vector<Case> cases;
  for (Plan& plan : assorted_plans()) {
    // The reference's normalizations allocate, for simplicity.
    const bool normalizes = std::any_of(plan.layers.begin(), plan.layers.end(),
                                        [](const LayerInfo& info) { return info.kind.ends_with("norm"); });
    if (!normalizes) cases.push_back({std::move(plan), "reference"});
  }
  if (kernels::cpu::lanes::kernels() != nullptr) {
    for (const char* name : {"softmax", "mlp", "lenet"}) {
      cases.push_back({std::move(make_model(name, {1, 28, 28}, 10)).value(), "cpu"});
    }
  }
  Random random(47);
  for (const auto& [plan, on] : cases) {
    INFO(plan.spec.name << " on " << on);
    Network network(plan, backend(on), 16, NetworkUse::train),
        evaluating(plan, backend(on), 16, NetworkUse::evaluate);
    const Batch data = random_batch(random, plan, 16);
    const std::vector<float> at = start(plan, 48);
    std::vector<float> gradient(at.size());
    const long before = allocation_count();
    network.train(at.data(), data.inputs.data(), data.labels.data(), gradient.data());
    evaluating.evaluate(at.data(), data.inputs.data(), data.labels.data(), 3);
    CHECK(allocation_count() == before);
  }
}

}  // namespace starling::models
