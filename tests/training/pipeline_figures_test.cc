// Speed-ups that papers about pipelines published, beside what our schedules and our planner predict for the
// same setting: the table of docs/PIPELINES.md. The published values are data with their source; ours are
// computed.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/pipelines.h"
#include "tests/training/resnet101.h"
#include "training/planner/prediction.h"
#include "training/planner/profiling/operations.h"
#include "training/planner/timing.h"

namespace starling::training {
namespace {

bool prints_as(double value, double three_decimals) { return std::abs(value - three_decimals) <= 0.0005; }

double seconds_of(PipelineSchedule schedule, std::uint32_t stages, std::uint32_t micro_batches,
                  double recomputation = 1) {
  const PipelineShape shape{.replicas = std::vector<std::uint32_t>(stages, 1),
                            .schedule = schedule,
                            .micro_batches = micro_batches,
                            .batches = 1};
  const StageTimes times{.forward = 1, .backward = 2, .recomputation = recomputation};
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

// K equal stages, M micro-batches and free transfers, over K 2 and M 1.
struct EqualStages {
  std::uint32_t stages, micro_batches;
  double published, ours;
};

// Huang et al., "GPipe", NeurIPS 2019, table 2: Transformer, whose layers are equal, then AmoebaNet-D, whose
// stages are not.
constexpr EqualStages kGpipe[] = {
    {4, 32, 3.4, 3.657}, {8, 32, 6.3, 6.564}, {8, 1, 1.38, 1}, {8, 4, 1.72, 2.909}, {8, 32, 3.48, 6.564}};
// Kim et al., "torchgpipe", arXiv 2004.09910, speed of AmoebaNet-D (18, 256): ours has no transfers.
constexpr EqualStages kTorchgpipe[] = {{8, 1, 0.932, 1}, {8, 4, 2.621, 2.909}, {8, 32, 4.953, 6.564}};

void check_equal_stages(const EqualStages& row) {
  CAPTURE(row.stages, row.micro_batches);
  const double k = row.stages, m = row.micro_batches;
  // Passes of all samples through all layers take 3 in all.
  const auto seconds = [](std::uint32_t stages, std::uint32_t micro_batches) {
    return seconds_of(PipelineSchedule::gpipe, stages, micro_batches, 0) / (stages * micro_batches);
  };
  const double ours = seconds(2, 1) / seconds(row.stages, row.micro_batches);
  CHECK(ours == Approx(m * k / (m + k - 1)).epsilon(1e-9));
  CHECK(prints_as(ours, row.ours));
}

TEST_CASE("equal stages are as fast as the formula says, which bounds what papers measured") {
  for (const EqualStages& row : kGpipe) check_equal_stages(row);
  for (const EqualStages& row : kTorchgpipe) {
    check_equal_stages(row);
    CHECK(row.published < row.ours);
  }
  // Transformer, which has neither a bottleneck nor few micro-batches, is within a tenth.
  for (const EqualStages& row : {kGpipe[0], kGpipe[1]}) {
    CHECK(row.published < row.ours);
    CHECK(row.published > 0.9 * row.ours);
  }
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

// torchgpipe, benchmarks/resnet101-speed on 8 Tesla P40; `gpipe`: Huang et al., arXiv 1811.06965v4, figure
// 3(b), as torchgpipe read it, with an unknown number of micro-batches.
struct DividedResnet {
  std::uint32_t stages, micro_batches;
  double batch;
  double torchgpipe, gpipe, ours;
};
constexpr DividedResnet kDivided[] = {{1, 2, 220, 0.853, 0.80, 0.857},
                                      {2, 1667, 25'000, 1.414, 1.42, 1.495},
                                      {4, 256, 5'632, 2.774, 2.18, 2.950},
                                      {8, 150, 5'400, 4.294, 2.89, 5.508}};

// How many times as fast as one device, by the schedule gpipe with recomputation; our planner chooses the
// stages by the layers' operations.
double speed_up(const models::Plan& network, const DividedResnet& row) {
  constexpr double kBaseline = 95.862;  // samples per second of the network on one device, not divided
  constexpr double kLinkBytes = 16e9;   // per second, of PCIe 3.0 with 16 lanes
  const double samples = row.batch / row.micro_batches;
  const PipelineProfile profile = profile_by_operations(network, samples, samples / kBaseline);
  PlanRequest request{.levels = {{static_cast<int>(row.stages), kLinkBytes}}};
  request.replicas.assign(row.stages, 1);
  request.schedule = {PipelineSchedule::gpipe, static_cast<int>(row.micro_batches)};
  PipelineTimes times;
  for (const PipelineStage& stage : best_plan(profile, request).stages) {
    StageTimes its{.forward = 0, .backward = 0};
    for (const std::size_t layer : stage.layers) {
      its.forward += profile.layers[layer].forward;
      its.backward += profile.layers[layer].backward;
    }
    its.recomputation = its.forward;
    times.stages.push_back(its);
    if (times.stages.size() > 1) times.links.push_back({.bandwidth = kLinkBytes, .bytes = stage.received});
  }
  const PipelineShape shape{.replicas = std::vector<std::uint32_t>(row.stages, 1),
                            .schedule = PipelineSchedule::gpipe,
                            .micro_batches = row.micro_batches,
                            .batches = 1};
  return row.batch / kBaseline / time_pipeline(shape, times).seconds;
}

TEST_CASE("ResNet-101 in stages: recomputation and the bubble explain most of what was published") {
  const models::Plan network = resnet101_plan();
  double before = 0;
  for (const DividedResnet& row : kDivided) {
    CAPTURE(row.stages);
    const double ours = speed_up(network, row);
    CHECK(prints_as(ours, row.ours));
    CHECK(ours > before);
    CHECK(ours > row.torchgpipe);
    CHECK(ours < 1.5 * row.torchgpipe);
    CHECK(ours > row.gpipe);
    before = ours;
  }
  // Of two micro-batches of 3 one is recomputed, which takes 1.
  CHECK(speed_up(network, kDivided[0]) == Approx(6.0 / 7).epsilon(1e-9));
  CHECK(before < 6);  // 8 devices, of which a quarter recomputes
}

// Stages against data parallelism. Narayanan et al., SOSP 2019, table 1 (V100); the last two are those of
// Harlap et al., arXiv 1806.03377, on Titan X and V100.
struct AgainstData {
  const char* network;  // of the profile
  std::vector<int> replicas;
  double gigabits;  // per second, of each device's link
  double published, ours, without_overlap;
  const char* planner_chooses;
};
const std::vector<AgainstData>& rows_against_data() {
  static const std::vector<AgainstData> kRows{{"vgg16", {15, 1}, 10, 5.28, 2.350, 2.609, "15-1"},
                                              {"alexnet", {15, 1}, 10, 4.92, 5.084, 5.676, "15-1"},
                                              {"resnet50", {16}, 10, 1, 1, 1, "16"},
                                              {"vgg16", {7, 1}, 25, 2.99, 0.946, 1.725, "8"},
                                              {"vgg16", {7, 1}, 10, 5.12, 2.179, 2.754, "7-1"}};
  return kRows;
}

PlanRequest request_of(const AgainstData& row, StageCost cost) {
  int devices = 0;
  for (const int count : row.replicas) devices += count;
  return {.levels = {{devices, 1e9 / 8 * row.gigabits}}, .cost = cost, .counts_current = true};
}

// The schedule's time of these stages, in units of that of data parallelism.
double over_data(const PipelineProfile& profile, const AgainstData& row, StageCost cost) {
  PlanRequest request = request_of(row, cost);
  request.replicas = row.replicas;
  const auto prediction = predict_pipeline(profile, request);
  REQUIRE(prediction.ok());
  return prediction->data_parallel / prediction->scheduled;
}

TEST_CASE("PipeDream against data parallelism, from its published profiles") {
  const char* folder = std::getenv("STARLING_PIPEDREAM");
  if (folder == nullptr) {
    WARN("skipped: STARLING_PIPEDREAM does not name a folder with PipeDream's profiles");
    return;
  }
  for (const AgainstData& row : rows_against_data()) {
    CAPTURE(row.network, row.gigabits);
    std::ifstream file(std::string(folder) + "/" + row.network + ".graph.txt");
    std::stringstream text;
    text << file.rdbuf();
    const auto profile = read_pipedream_profile(text.str());
    REQUIRE(profile.ok());
    CHECK(prints_as(over_data(*profile, row, StageCost::overlapped), row.ours));
    CHECK(prints_as(over_data(*profile, row, StageCost::added), row.without_overlap));
    CHECK(shape_of(best_plan(*profile, request_of(row, StageCost::overlapped))) == row.planner_chooses);
  }
}

}  // namespace
}  // namespace starling::training
