// Networks on a GPU: the reference's loss, gradient and evaluation, and the same gradient when activations
// are recomputed. Skipped with a warning if there is no GPU, not even the emulated one.
#include <cmath>
#include <string>

#include "kernels/buffer.h"
#include "kernels/by_name/backends.h"
#include "models/gpt.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/near.h"

namespace starling::models {
namespace {

using kernels::Buffer;
using kernels::gpu_backend;

constexpr int kVocabulary = 29;

struct Small {
  Plan plan;
  int batch;
};

std::vector<Small> small_networks() {
  const auto block = [](int channels) {
    return Residual{{Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}, Relu{},
                     Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}}};
  };
  const auto narrowing = [](int channels) {
    return Residual{{Convolution{channels, 3, 2, 1, 1, false}, BatchNorm{}, Relu{},
                     Convolution{channels, 3, 1, 1, 1, false}, BatchNorm{}},
                    {Convolution{channels, 1, 2, 0, 1, false}, BatchNorm{}}};
  };
  std::vector<Small> networks;
  networks.push_back({std::move(make_model("lenet", {1, 28, 28}, 10)).value(), 4});
  networks.push_back({std::move(make_plan({"residual",
                                           {3, 8, 8},
                                           {Convolution{8, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}, block(8),
                                            Relu{}, narrowing(16), Relu{}, GlobalAveragePool{}, Linear{5}}}))
                          .value(),
                      6});
  // Texts: a GPT with a tied output layer, and a Llama.
  Gpt gpt{2, 3, 24, 20}, llama{2, 4, 32, 33, 2, 44};
  gpt.bias = gpt.tanh = true;
  llama.bias = llama.tied = false;
  llama.rms = llama.swiglu = llama.rotary = true;
  const auto add = [&](const char* name, const Gpt& it) {
    networks.push_back(
        {std::move(make_plan({name, {1, 1, 1, it.context}, gpt_layers(it, kVocabulary)})).value(), 3});
  };
  add("gpt", gpt);
  add("llama", llama);
  return networks;
}

struct Outcome {
  double loss = 0;
  std::vector<float> gradient;  // and the changes of running statistics
  Network::Evaluation evaluation;
  std::size_t kept = 0;
};

// Makes one step from the same parameters, on the same batch, on any back end.
Outcome compute(const kernels::Backend& backend, const Small& small, NetworkOptions options = {}) {
  const auto& [plan, batch] = small;
  Network network(plan, backend, batch, NetworkUse::train, options);
  Network judge(plan, backend, batch, NetworkUse::evaluate);
  const auto labels_in_all = static_cast<std::size_t>(batch * plan.labels());
  std::vector<float> start(plan.layout.arena_size()),
      images(labels_in_all * static_cast<std::size_t>(plan.spec.input.channels * plan.spec.input.height *
                                                      plan.spec.input.width));
  initialize(plan, Random(5), start);
  Random random(6);
  for (float& x : images) {
    x = plan.spec.input.tokens > 0 ? static_cast<float>(random.below(kVocabulary))
                                   : static_cast<float>(random.uniform(-1, 1));
  }
  std::vector<std::int32_t> classes(labels_in_all);
  for (auto& it : classes)
    it = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(plan.classes)));

  const auto bring = [&](const auto& values) {
    static_assert(sizeof(values[0]) == sizeof(float));
    Buffer there(values.size(), backend.memory());
    network.queue().upload(values.data(), there.data(), there.bytes());
    network.queue().wait();
    return there;
  };
  const Buffer parameters = bring(start), inputs = bring(images), labels = bring(classes);
  const auto* label = reinterpret_cast<const std::int32_t*>(labels.data());
  Buffer gradient(start.size(), backend.memory());
  Outcome outcome;
  outcome.loss = network.train(parameters.data(), inputs.data(), label, gradient.data());
  outcome.evaluation = judge.evaluate(parameters.data(), inputs.data(), label, judge.predictions());
  outcome.gradient.resize(start.size());
  network.queue().download(gradient.data(), outcome.gradient.data(), gradient.bytes());
  network.queue().wait();
  outcome.kept = network.memory().activations_bytes;
  return outcome;
}

// The largest relative distance of any tensor.
double distance(const Plan& plan, const std::vector<float>& actual, const std::vector<float>& expected) {
  double most = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    double difference = 0, length = 0;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const auto a = static_cast<double>(actual[i]), b = static_cast<double>(expected[i]);
      difference += (a - b) * (a - b);
      length += b * b;
    }
    most = std::max(most, std::isfinite(difference) ? std::sqrt(difference / (length + 1e-12)) : INFINITY);
  }
  return most;
}

}  // namespace

TEST_CASE("a network on a GPU has the reference's loss, gradient and evaluation", "[gpu]") {
  const auto gpu = gpu_backend();
  if (!gpu) return;
  const auto reference = std::move(kernels::make_backend("reference")).value();
  for (const Small& small : small_networks()) {
    INFO(small.plan.spec.name);
    const Outcome expected = compute(*reference, small), actual = compute(*gpu, small);
    CHECK(near(actual.loss, expected.loss, 1e-4));
    CHECK(distance(small.plan, actual.gradient, expected.gradient) < 1e-4);
    CHECK(near(actual.evaluation.loss_sum, expected.evaluation.loss_sum, 1e-4));
    CHECK(actual.evaluation.correct == expected.evaluation.correct);
  }
}

TEST_CASE("a network that recomputes activations on a GPU has the same gradient, and less memory", "[gpu]") {
  for (const auto precision : {kernels::Precision::f32, kernels::Precision::bf16}) {
    const auto gpu = gpu_backend(precision);
    if (!gpu) return;
    for (const Small& small : small_networks()) {
      INFO(small.plan.spec.name << (precision == kernels::Precision::f32 ? " in f32" : " in bf16"));
      const Outcome all = compute(*gpu, small), few = compute(*gpu, small, {.recompute = true});
      // Not exactly: the order in which a library adds may change from run to run.
      CHECK(near(few.loss, all.loss, 1e-5));
      CHECK(distance(small.plan, few.gradient, all.gradient) <
            (precision == kernels::Precision::f32 ? 1e-5 : 1e-2));
      CHECK(few.kept < all.kept);
    }
  }
}

TEST_CASE("a network for text on a GPU in bfloat16 stays close to the reference", "[gpu]") {
  const auto gpu = gpu_backend(kernels::Precision::bf16);
  if (!gpu) return;
  const auto reference = std::move(kernels::make_backend("reference")).value();
  for (const Small& small : small_networks()) {
    if (small.plan.spec.input.tokens == 0) continue;
    INFO(small.plan.spec.name);
    const Outcome expected = compute(*reference, small), actual = compute(*gpu, small);
    CHECK(near(actual.loss, expected.loss, 2e-3));
    CHECK(distance(small.plan, actual.gradient, expected.gradient) < 0.03);
    CHECK(near(actual.evaluation.loss_sum, expected.evaluation.loss_sum, 2e-3));
  }
}

}  // namespace starling::models
