// Profiles that are measured on this machine. No time is compared with an expected one.
#include "training/planner/profiling/measured_profile.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/models/plans.h"
#include "training/planner/partition.h"

namespace starling::training {
namespace {

constexpr Repetitions kFewest{.least = 1, .most = 1, .seconds = 0};

models::Plan plan_with(models::Shape input, std::vector<models::Layer> layers) {
  return std::move(models::make_plan({"tested", input, std::move(layers)})).value();
}

void check_times(const MeasuredProfile& measured) {
  double sum = 0;
  for (const ProfiledLayer& layer : measured.profile.layers) {
    INFO(layer.name);
    for (const double seconds : {layer.forward, layer.backward}) {
      CHECK(seconds > 0);
      CHECK(std::isfinite(seconds));
      sum += seconds;
    }
  }
  CHECK(measured.whole > 0);
  CHECK(measured.by_layers > 0);
  CHECK(std::abs(sum - measured.whole) <= 1e-9 * measured.whole);
}

}  // namespace

TEST_CASE("a measured profile is a chain of all layers, with the bytes that cross each cut") {
  // The residual block's input crosses the cuts inside its branch together with the branch's own values.
  const models::Plan plan = plan_with(
      {2, 4, 4},
      {models::Convolution{3, 3, 1, 1},
       models::Residual{{models::Convolution{5, 3, 1, 1}, models::Relu{}, models::Convolution{3, 1}}},
       models::Linear{2}});
  constexpr int kSamples = 4;
  for (const char* on : {"reference", "cpu"}) {
    const MeasuredProfile measured = measure_profile(plan, models::backend(on), kSamples, kFewest);
    const PipelineProfile& profile = measured.profile;
    REQUIRE(check_profile(profile).ok());
    REQUIRE(profile.layers.size() == 6);
    const double place = 4 * 4 * kSamples * sizeof(float);  // bytes of a channel
    const double crossing[] = {3 * place,       (3 + 5) * place, (3 + 5) * place,
                               (3 + 3) * place, 3 * place,       2 * kSamples * sizeof(float)};
    const double parameters[] = {3 * 2 * 9 + 3, 5 * 3 * 9 + 5, 0, 3 * 5 + 3, 0, 2 * 3 * 16 + 2};
    for (std::size_t i = 0; i < profile.layers.size(); ++i) {
      INFO(on << ", layer " << i);
      CHECK(profile.layers[i].name == plan.layers[i].name);
      CHECK(profile.layers[i].activations == crossing[i]);
      CHECK(profile.layers[i].parameters == sizeof(float) * parameters[i]);
      CHECK(profile.readers[i].size() == (i + 1 < profile.layers.size() ? 1 : 0));
    }
    check_times(measured);
    const auto cuts = find_cuts(profile);
    REQUIRE(cuts.ok());
    CHECK(cuts->size() == 6);
    CHECK(cuts->crossing[1] == crossing[1]);
  }
}

TEST_CASE("every kind of layer can be measured") {
  std::vector<models::Plan> plans = models::assorted_plans();
  plans.push_back(
      plan_with({1, 1, 1, 8}, {models::Embedding{12, 8, 9, 0.02}, models::Position{},
                               models::TransformerBlock{.heads = 2, .dropout = 0.1}, models::LayerNorm{},
                               models::Linear{.features = 9, .tied = true}}));
  for (const models::Plan& plan : plans) {
    INFO(plan.spec.name);
    const MeasuredProfile measured = measure_profile(plan, models::backend("cpu"), 2, kFewest);
    REQUIRE(measured.profile.layers.size() == plan.layers.size());
    check_times(measured);
    double parameters = 0, expected = 0;
    for (const ProfiledLayer& layer : measured.profile.layers) parameters += layer.parameters;
    for (const models::Tensor& tensor : plan.layout.tensors())
      expected += static_cast<double>(sizeof(float) * tensor.size);
    // A tied weight counts at the embedding and at the last layer.
    if (plan.spec.input.tokens > 0) expected += sizeof(float) * 9 * 12;
    CHECK(parameters == expected);
  }
}

}  // namespace starling::training
