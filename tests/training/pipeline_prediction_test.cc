// Plans for schedules: synchronization for each update, what a device keeps, and the time by the schedule.
#include "training/planner/prediction.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/training/pipelines.h"

namespace starling::training {
namespace {

PlanRequest on_devices(int count, double bandwidth, PlannedSchedule schedule) {
  return {.levels = {{count, bandwidth}}, .schedule = schedule};
}

bool about(double value, double expected) { return std::abs(value - expected) <= 1e-12 * expected; }

}  // namespace

TEST_CASE("a gradient is averaged once for each update") {
  // One layer of 10 ms on two devices; to average 1 MB at 1e8 bytes/s takes 4 / 2 x 1 MB = 20 ms.
  const PipelineProfile profile = chain_profile({timed(10, 0, 1e6)});
  const auto seconds = [&](PlannedSchedule schedule) {
    const PipelinePlan plan = best_plan(profile, on_devices(2, 1e8, schedule));
    CHECK(plan.data_parallel == plan.seconds);
    CHECK(about(plan.stages[0].synchronization, 20e-3));
    return plan.seconds;
  };
  CHECK(about(seconds({}), 10e-3));
  // Each replica has four micro-batches for an update: 40 ms, longer than 20.
  CHECK(about(seconds({PipelineSchedule::pipedream, 4}), 5e-3));
  // The replicas share them: two of 10 ms each for an update of 20 ms, or one of 10 ms.
  CHECK(about(seconds({PipelineSchedule::one_f_one_b, 4}), 5e-3));
  CHECK(about(seconds({PipelineSchedule::gpipe, 2}), 10e-3));
}

TEST_CASE("a device keeps what its schedule needs") {
  const PipelineProfile profile = chain_profile({timed(1, 3, 10), timed(1, 3, 10), timed(1, 3, 10)});
  const auto memory = [&](PlannedSchedule schedule) {
    PlanRequest request = on_devices(3, 1e9, schedule);
    request.replicas = {1, 1, 1};
    std::vector<double> bytes;
    for (const PipelineStage& stage : best_plan(profile, request).stages) bytes.push_back(stage.memory);
    return bytes;
  };
  using Bytes = std::vector<double>;
  CHECK(memory({}) == Bytes{39, 26, 13});
  CHECK(memory({PipelineSchedule::one_f_one_b, 8}) == Bytes{19, 16, 13});
  CHECK(memory({PipelineSchedule::one_f_one_b, 2}) == Bytes{16, 16, 13});
  CHECK(memory({PipelineSchedule::gpipe, 8}) == Bytes{34, 34, 34});
  CHECK(memory({PipelineSchedule::layer_wise, 1}) == Bytes{13, 13, 13});

  PlanRequest request = on_devices(3, 1e9, {PipelineSchedule::gpipe, 8});
  request.replicas = {1, 1, 1};
  request.counts_current = true;
  request.memory = 34;
  CHECK(plan_pipeline(profile, request).ok());
  request.memory = 33;
  const auto refused = plan_pipeline(profile, request);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("34 bytes") != std::string::npos);
}

TEST_CASE("a prediction has the time of the schedule, and micro-batches that replicas can share") {
  const PipelineProfile profile = chain_profile({timed(6, 0, 0), timed(6, 0, 0), timed(6, 0, 0)});
  PlanRequest request = on_devices(3, 1e9, {PipelineSchedule::one_f_one_b, 4});
  request.replicas = {2, 1};
  const auto prediction = predict_pipeline(profile, request);
  REQUIRE(prediction.ok());
  CHECK(prediction->shape.micro_batches == 4);
  CHECK(prediction->trace.entries.size() == 2 * 4 * 2 + 3);  // and an update of each replica
  CHECK(about(prediction->planned, 24e-3));
  CHECK(prediction->scheduled > prediction->planned);
  CHECK(about(prediction->one_device, 72e-3));
  CHECK(about(prediction->bubble, 1 - 72e-3 / (3 * prediction->scheduled)));

  request.schedule.micro_batches = 5;
  CHECK(predict_pipeline(profile, request)->shape.micro_batches == 6);
  // Without a flush devices of a balanced pipeline are never idle, far from the beginning.
  request.schedule = {};
  request.replicas = {1, 1, 1};
  const auto steady = predict_pipeline(profile, request);
  REQUIRE(steady.ok());
  CHECK(std::abs(steady->bubble) < 1e-9);
  CHECK(std::abs(steady->scheduled - 6e-3) < 1e-9);

  request.replicas = {};
  request.levels = {{1021, 1e9}};
  request.schedule = {PipelineSchedule::one_f_one_b, 4000};
  CHECK(predict_pipeline(chain_profile({timed(1, 0, 0)}), request).ok());
}

}  // namespace starling::training
