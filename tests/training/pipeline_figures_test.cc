// Published speed-ups of pipelines beside ours.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/pipelines.h"
#include "training/pipeline/prediction.h"
#include "training/pipeline/profiling/operations.h"
#include "training/pipeline/published/figures.h"
#include "training/pipeline/published/resnet101.h"

namespace starling::training {
namespace {

const PublishedFigure& figure_named(const std::vector<PublishedFigure>& figures, const std::string& work,
                                    const std::string& setting) {
  const auto at = std::ranges::find_if(figures, [&](const PublishedFigure& figure) {
    return figure.work == work && figure.setting == setting;
  });
  if (at == figures.end()) FAIL("no figure of " + work + ": " + setting);
  return *at;
}

// A network with few large layers at its end, as VGG has them. Bytes and seconds are those of 64 images.
PipelineProfile heavy_at_the_end() {
  std::vector<ProfiledLayer> layers(12, timed(50, 50e6, 4e6));
  layers.push_back(timed(10, 1e6, 500e6));
  return chain_profile(std::move(layers));
}

double seconds_of(PipelineSchedule schedule, std::uint32_t stages, std::uint32_t micro_batches) {
  const PipelineShape shape{.replicas = std::vector<std::uint32_t>(stages, 1),
                            .schedule = schedule,
                            .micro_batches = micro_batches,
                            .batches = 1};
  const StageTimes times{.forward = 1, .backward = 2, .recomputation = 1};
  return time_pipeline(shape, {.stages = std::vector<StageTimes>(stages, times), .links = {}}).seconds;
}

TEST_CASE("a backward pass recomputes unless its own forward pass came just before") {
  CHECK(seconds_of(PipelineSchedule::gpipe, 1, 1) == 3);
  CHECK(seconds_of(PipelineSchedule::gpipe, 1, 4) == 4 * 3 + 3);
  CHECK(seconds_of(PipelineSchedule::one_f_one_b, 1, 4) == 4 * 3);
  // Both stages compute 2 + 2 for the last micro-batch, and the first stage then 3 for each of the others.
  CHECK(seconds_of(PipelineSchedule::gpipe, 2, 1) == 6);
  CHECK(seconds_of(PipelineSchedule::gpipe, 2, 3) == 4 + 2 + 3 + 3 + 3);
}

TEST_CASE("figures of equal stages are those of the formula, and have sources") {
  const auto figures = equal_stage_figures();
  REQUIRE(figures.size() >= 2);
  for (const PublishedFigure& figure : figures) {
    CAPTURE(figure.setting);
    int stages = 0, micro_batches = 0;
    const std::size_t at = figure.setting.find(", K ");
    REQUIRE(std::sscanf(figure.setting.c_str() + at, ", K %d, M %d", &stages, &micro_batches) == 2);
    const double ideal = static_cast<double>(micro_batches * stages) / (micro_batches + stages - 1);
    CHECK(std::abs(*figure.ours - ideal) < 1e-9);
    CHECK(!figure.source.empty());
    CHECK(!figure.reason.empty());
  }
  CHECK(figure_named(figures, "GPipe", "Transformer, K 4, M 32").published == 3.4);
  CHECK(figure_named(figures, "GPipe", "Transformer, K 8, M 32").published == 6.3);
}

TEST_CASE("ResNet-101 has the published number of parameters, and its profile what crosses its cuts") {
  const models::Plan plan = resnet101_plan();
  CHECK(plan.layout.parameter_count() == 44'549'160);
  const PipelineProfile profile = profile_by_operations(plan, 32, 0.32);
  REQUIRE(profile.layers.size() == plan.layers.size());
  double seconds = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    CHECK(layer.backward == 2 * layer.forward);
    seconds += layer.forward + layer.backward;
  }
  CHECK(seconds == Approx(0.32).epsilon(1e-9));
  // Behind the pool only its output crosses; within the first block its output and that of the convolution.
  const double images = 32 * 4;
  REQUIRE(plan.layers[3].kind == "max pool");
  CHECK(profile.layers[3].activations == images * 64 * 56 * 56);
  CHECK(profile.layers[4].activations == images * 2 * 64 * 56 * 56);
  CHECK(profile.layers.back().activations == images * 1000);
}

TEST_CASE("ResNet-101 in stages: recomputation and the bubble explain most of what was published") {
  const auto figures = resnet101_figures();
  if (!figures) FAIL(figures.error().message);
  REQUIRE(figures->size() == 8);
  // Of two micro-batches of 3 one is recomputed, which takes 1.
  CHECK(*figure_named(*figures, "torchgpipe", "ResNet-101, K 1, M 2").ours == Approx(6.0 / 7).epsilon(1e-9));
  double before = 0;
  for (const PublishedFigure& figure : *figures) {
    if (figure.work != "torchgpipe") continue;
    CAPTURE(figure.setting);
    CHECK(*figure.ours > before);
    CHECK(*figure.ours > figure.published);
    CHECK(*figure.ours < 1.5 * figure.published);
    before = *figure.ours;
  }
  CHECK(before < 6);  // 8 devices, of which a quarter recomputes
  CHECK(figure_named(*figures, "GPipe", "ResNet-101, K 8, M 150").published == 2.89);
}

TEST_CASE("figures of PipeDream need its profiles, and are what the planner predicts") {
  const std::size_t networks = pipedream_networks().size();
  const auto none = pipedream_figures(std::vector<std::optional<PipelineProfile>>(networks));
  REQUIRE(none.ok());
  REQUIRE(none->size() >= 4);
  for (const PublishedFigure& figure : *none) {
    CHECK_FALSE(figure.ours.has_value());
    CHECK(contains(figure.reason, ".graph.txt"));
  }
  CHECK(figure_named(*none, "PipeDream", "VGG-16, 15-1, 10Gbit/s").published == 5.28);
  CHECK(figure_named(*none, "PipeDream", "AlexNet, 15-1, 10Gbit/s").published == 4.92);
  CHECK(figure_named(*none, "PipeDream", "VGG-16, 7-1, 25Gbit/s").published == 2.99);
  CHECK(figure_named(*none, "PipeDream", "VGG-16, 7-1, 10Gbit/s").published == 5.12);

  std::vector<std::optional<PipelineProfile>> profiles(networks);
  profiles[0] = heavy_at_the_end();
  const auto figures = pipedream_figures(profiles);
  if (!figures) FAIL(figures.error().message);
  const PublishedFigure& figure = figure_named(*figures, "PipeDream", "VGG-16, 15-1, 10Gbit/s");
  PlanRequest request{.levels = {{16, 1.25e9}}, .counts_current = true};
  request.replicas = {15, 1};
  const auto prediction = predict_pipeline(*profiles[0], request);
  REQUIRE(prediction.ok());
  CHECK(*figure.ours == Approx(prediction->data_parallel / prediction->scheduled).epsilon(1e-12));
  CHECK(*figure.without_overlap > *figure.ours);
  CHECK(figure.planner_chooses == "15-1");
  CHECK_FALSE(figure_named(*figures, "PipeDream", "AlexNet, 15-1, 10Gbit/s").ours.has_value());
}

}  // namespace
}  // namespace starling::training
