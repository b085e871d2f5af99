// A network whose layers are divided among parts on threads: its loss, gradient and running statistics are
// those of the whole network for the same batch, but for the order of sums.
#include "training/learning/slices/sliced_network.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/onednn/version.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/training/staged_plans.h"

namespace starling::training {
namespace {

using models::Plan;

Plan sliceable(models::Spec spec) { return std::move(models::make_plan(std::move(spec))).value(); }
Plan zoo_network(const char* name, models::Shape input) {
  return std::move(models::make_model(name, input, 10)).value();
}

// A text with attention of 3 heads, or of 4 heads with 2 keys and values and rotary positions.
Plan text_to_slice(double dropout) {
  using namespace models;
  Spec text{"text", {1, 1, 1, 6}, {}};
  text.layers = {Embedding{24, 6, 9, 0.02},
                 Position{},
                 Dropout{0.1},
                 TransformerBlock{.heads = 3, .dropout = dropout},
                 TransformerBlock{.heads = 4, .groups = 2, .rms = true, .swiglu = true, .rotary = true},
                 LayerNorm{},
                 Linear{.features = 9, .tied = true}};
  return sliceable(std::move(text));
}

// Convolutions and pools; residual blocks with batch norms, dropout and group norm; grouped and depthwise
// convolutions, also of the batch; texts.
std::vector<Plan> plans_to_slice() {
  using namespace models;
  std::vector<Plan> plans = assorted_plans();
  plans.push_back(zoo_network("lenet", {1, 14, 14}));
  plans.push_back(sliceable(
      {"residual",
       {2, 6, 6},
       {Convolution{7, 3, 1, 1, 1, false}, BatchNorm{}, Relu{},
        Residual{
            {Convolution{7, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}, Dropout{0.3}, Convolution{7, 3, 1, 1}}},
        Residual{{Convolution{6, 3, 2, 1}, BatchNorm{}}, {Convolution{6, 1, 2}}},
        Residual{{Relu{}, GroupNorm{2}}, {Convolution{6, 1, 1}}}, GlobalAveragePool{}, Linear{3}}}));
  plans.push_back(sliceable({"groups",
                             {4, 7, 6},
                             {Convolution{8, 3, 1, 1, 2}, Relu{}, Convolution{8, 3, 1, 1, 8}, BatchNorm{},
                              Relu{}, Convolution{12, 1, 1, 0, 4}, Gelu{}, MaxPool{2},
                              Convolution{6, 3, 1, 1, 3}, GlobalAveragePool{}, Linear{3}}}));
  plans.push_back(sliceable({"norms",
                             {3, 5, 5},
                             {Convolution{6, 3, 1, 1}, LayerNorm{}, Dropout{0.2}, Convolution{6, 1, 1, 0, 3},
                              GroupNorm{2}, BatchNorm{}, Residual{{Convolution{6, 3, 1, 1}, LayerNorm{}}},
                              Linear{8}, RmsNorm{}, Swiglu{}, Linear{4}, LayerNorm{}}}));
  plans.push_back(text_to_slice(0));
  plans.push_back(text_to_slice(0.2));
  return plans;
}

// The largest distance, relative to the largest magnitude.
double distance(const kernels::Buffer& a, const kernels::Buffer& b) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a.data()[i])));
  }
  return most / largest;
}

// Several batches, then one with the draws of the second.
void check_slices_of(const std::string& on, const Plan& plan, int samples, const SlicedOptions& options) {
  // Winograd's convolutions round differently for other numbers of channels. A ReLU or the maximum of a pool
  // can then decide otherwise where two values are almost equal.
  const bool rounds_otherwise = on == "cpu" && kernels::cpu::has_winograd();
  int decided_otherwise = 0;
  Random random(21);
  kernels::Buffer x(plan.layout.arena_size()), expected(x.size()), found(x.size());
  models::initialize(plan, Random(5), x.values());
  models::Network whole(plan, models::backend(on), samples, models::NetworkUse::train,
                        {.seed = options.seed});
  SlicedNetwork sliced(plan, models::backend(on), samples, options);
  for (int step = 0; step < 3; ++step) {
    if (step == 2) {
      whole.set_draws(1);
      sliced.set_draws(1);
    }
    const models::Batch batch = testing::batch_of(random, plan, samples);
    const double loss = whole.train(x.data(), batch.inputs.data(), batch.labels.data(), expected.data());
    const double of_slices = sliced.train(x.data(), batch.inputs.data(), batch.labels.data(), found.data());
    const double apart = distance(expected, found);
    if (on == "reference" && options.parts == 1) {
      REQUIRE(apart == 0);
      REQUIRE(loss == of_slices);
    } else {
      decided_otherwise += apart > 1e-5;
      REQUIRE(apart <= (rounds_otherwise ? 1e-2 : 1e-5));
      REQUIRE(std::abs(loss - of_slices) <= 1e-5 * loss);
    }
  }
  REQUIRE(decided_otherwise <= 1);
}

// At most this number.
std::size_t most_parts(const Plan& plan, std::size_t parts) {
  while (!check_slices(plan, 1, {parts, 0}).ok()) --parts;
  return parts;
}

std::string refusal_of_slices(const Plan& plan, int batch, std::size_t parts) {
  const Status status = check_slices(plan, batch, {parts, 0});
  return status.ok() ? "" : status.error().message;
}

}  // namespace

TEST_CASE("slices have the gradient of the whole network, bit by bit if there is one part", "[figures]") {
  for (const Plan& plan : plans_to_slice()) {
    for (const char* const on : {"reference", "cpu"}) {
      for (std::size_t parts = 1; parts <= most_parts(plan, 4); ++parts) {
        for (const int samples : {3, 8}) {
          INFO(plan.spec.name << " on " << on << ", " << parts << " parts, " << samples << " samples");
          check_slices_of(on, plan, samples, {parts, 7});
        }
      }
    }
  }
}

TEST_CASE("parts without some layers' channels compute the others") {
  for (const Plan& plan : plans_to_slice()) {
    for (std::size_t parts = 5; parts <= most_parts(plan, 9); ++parts) {
      INFO(plan.spec.name << ", " << parts << " parts");
      check_slices_of("reference", plan, 2, {parts, 7});
    }
  }
}

TEST_CASE("slices of large networks have the gradient of the whole network", "[figures]") {
  const Plan resnet = zoo_network("resnet8", {3, 32, 32}), vgg = zoo_network("vgg-small", {3, 32, 32}),
             lenet = zoo_network("lenet", {1, 28, 28});
  for (std::size_t parts = 2; parts <= 4; ++parts) {
    for (const Plan* const plan : {&resnet, &vgg, &lenet}) {
      INFO(plan->spec.name << ", " << parts << " parts");
      check_slices_of("cpu", *plan, 8, {parts, 7});
    }
  }
}

TEST_CASE("two parts have the gradient of the whole network", "[arena]") {
  for (const char* const on : {"reference", "cpu"}) {
    check_slices_of(on, zoo_network("lenet", {1, 14, 14}), 4, {2, 0});
    check_slices_of(on, text_to_slice(0), 2, {2, 0});
  }
}

TEST_CASE("what parts of LeNet gather and reduce is as counted by hand") {
  const Plan plan = zoo_network("lenet", {1, 28, 28});
  // A sample has 20 x 12 x 12 values behind the first pool (a thirteenth row and column are not read), 50 x 4
  // x 4 behind the second one, 128 units and 10 logits. The logits go to part 0.
  const std::size_t read_by_all = 20 * 12 * 12 + 50 * 4 * 4 + 128;
  const auto bytes = [&](std::size_t parts) {
    return SlicedNetwork(plan, models::backend("cpu"), 16, {parts, 0}).traffic();
  };
  CHECK(bytes(1).gathered == 0);
  CHECK(bytes(1).reduced == 0);
  CHECK(bytes(2).gathered == 16 * 4 * (read_by_all + 5));
  CHECK(bytes(2).reduced == bytes(2).gathered);
  // Part 0 of 4 has 2 of the logits; each of the other values is new to 3 parts.
  CHECK(bytes(4).gathered == 16 * 4 * (3 * read_by_all + 8));
  CHECK(bytes(4).reduced == bytes(4).gathered);
}

TEST_CASE("parts share the activations of a network") {
  const Plan plan = zoo_network("vgg-small", {3, 32, 32});
  const SlicedNetwork one(plan, models::backend("reference"), 4, {1, 0}),
      two(plan, models::backend("reference"), 4, {2, 0});
  CHECK(one.memory(0).slices == 0);
  CHECK(two.memory(1).shared == 0);
  CHECK(two.memory(1).sections < one.memory(0).sections);
  CHECK(two.predictions() == 4);
  CHECK(two.parts() == 2);
}

TEST_CASE("impossible slices are an error that says what is possible") {
  const Plan plan = sliceable({"small", {1, 2, 2}, {models::Linear{3}, models::Relu{}, models::Linear{2}}});
  CHECK(refusal_of_slices(plan, 4, 3).empty());
  CHECK(refusal_of_slices(plan, 4, 4) ==
        "4 parts are impossible: the layers of small can be divided among at most 3 parts, as fc1 can");
  CHECK(refusal_of_slices(plan, 4, 0) == "a network needs at least 1 part");
  CHECK(refusal_of_slices(plan, 0, 1) == "a batch needs at least 1 sample");
  const Plan fixed = sliceable({"fixed", {3, 1, 1}, {models::LayerNorm{}}});
  CHECK(refusal_of_slices(fixed, 4, 1).empty());
  CHECK(refusal_of_slices(fixed, 4, 2) == "2 parts are impossible: no layer of fixed can be divided");
}

}  // namespace starling::training
