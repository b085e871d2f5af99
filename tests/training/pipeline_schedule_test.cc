// Schedules of pipelines: their order, what they keep, their times, and that no order of events stops them.
#include "training/planner/schedule.h"

#include <cmath>
#include <set>

#include "base/random.h"
#include "tests/catch.h"
#include "training/planner/timing.h"

namespace starling::training {
namespace {

using TaskKind = StageTask::Kind;

PipelineShape pipeline(PipelineSchedule schedule, std::vector<std::uint32_t> replicas,
                       std::uint32_t micro_batches, std::uint64_t batches = 1) {
  return {std::move(replicas), schedule, micro_batches, batches};
}
PipelineShape straight(PipelineSchedule schedule, std::size_t stages, std::uint32_t micro_batches,
                       std::uint64_t batches = 1) {
  return pipeline(schedule, std::vector<std::uint32_t>(stages, 1), micro_batches, batches);
}

// "F0 F1 B0 B1 U0".
std::string text_of(const std::vector<StageTask>& tasks) {
  std::string text;
  for (const StageTask& task : tasks) {
    text += task.kind == TaskKind::forward ? "F" : task.kind == TaskKind::backward ? "B" : "U";
    text += std::to_string(task.number) + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

PipelineTimes equal_times(std::size_t stages, double forward, double backward) {
  return {std::vector<StageTimes>(stages, StageTimes{forward, backward}), {}};
}

std::string refusal(const PipelineShape& shape) {
  const Status status = check_shape(shape);
  return status.ok() ? "" : status.error().message;
}

}  // namespace

TEST_CASE("each schedule has its order") {
  using enum PipelineSchedule;
  CHECK(text_of(tasks_of(straight(gpipe, 3, 3), 1, 0)) == "F0 F1 F2 B2 B1 B0 U0");
  CHECK(text_of(tasks_of(straight(one_f_one_b, 3, 4), 0, 0)) == "F0 F1 F2 B0 F3 B1 B2 B3 U0");
  CHECK(text_of(tasks_of(straight(one_f_one_b, 3, 4), 2, 0)) == "F0 B0 F1 B1 F2 B2 F3 B3 U0");
  CHECK(text_of(tasks_of(straight(one_f_one_b, 2, 2, 2), 0, 0)) == "F0 F1 B0 B1 U0 F2 F3 B2 B3 U1");
  CHECK(text_of(tasks_of(straight(layer_wise, 2, 1, 2), 0, 0)) == "F0 B0 U0 F1 B1 U1");
  CHECK(text_of(tasks_of(straight(pipedream, 2, 1, 4), 0, 0)) == "F0 F1 B0 U0 F2 B1 U1 F3 B2 U2 B3 U3");
  CHECK(text_of(tasks_of(straight(pipedream, 2, 2, 2), 0, 0)) == "F0 F1 B0 F2 B1 U0 F3 B2 B3 U1");
  // 2-1-1: micro-batch i is that of replica i mod 2.
  CHECK(text_of(tasks_of(pipeline(pipedream, {2, 1, 1}, 1, 6), 0, 1)) == "F1 F3 B1 U0 F5 B3 U1 B5 U2");
}

TEST_CASE("the first forward passes of PipeDream are those of its paper") {
  const auto warm_up = [](const std::vector<std::uint32_t>& replicas) {
    std::vector<std::uint64_t> passes;
    for (std::size_t s = 0; s < replicas.size(); ++s)
      passes.push_back(warm_up_passes(pipeline(PipelineSchedule::pipedream, replicas, 1), s));
    return passes;
  };
  using Passes = std::vector<std::uint64_t>;
  CHECK(warm_up({3, 1}) == Passes{1, 0});
  CHECK(warm_up({1, 1, 1, 1}) == Passes{3, 2, 1, 0});
  CHECK(warm_up({2, 1, 1}) == Passes{1, 1, 0});
}

TEST_CASE("an impossible pipeline is an error that says what is possible") {
  using enum PipelineSchedule;
  CHECK(refusal(straight(gpipe, 0, 1)) == "a pipeline needs at least one stage");
  CHECK(refusal(straight(gpipe, 1, 0)) == "a batch needs at least one micro-batch");
  CHECK(refusal(pipeline(gpipe, {1, 0}, 1)) == "every stage needs at least one replica");
  CHECK(refusal(straight(layer_wise, 2, 4)) ==
        "the schedule layer-wise does not divide a batch: one micro-batch, not 4");
  CHECK(refusal(pipeline(one_f_one_b, {3, 1}, 4)) ==
        "4 micro-batches cannot be divided equally among 3 replicas of a stage");
  CHECK(refusal(pipeline(pipedream, {2, 1}, 2, 3)) ==
        "6 micro-batches cannot be divided equally among 2 replicas of a stage, each with 2 for an update");
  CHECK(refusal(pipeline(pipedream, {2, 1}, 1, 4)).empty());
}

TEST_CASE("with equal stages the bubble is (K - 1) / (M + K - 1), whatever the times") {
  Random random(1);
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (std::size_t stages = 1; stages <= 8; ++stages) {
      for (std::uint32_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
        const double forward = random.uniform(0.1, 3), backward = random.uniform(0.1, 6);
        const auto trace =
            time_pipeline(straight(schedule, stages, micro_batches), equal_times(stages, forward, backward));
        const double k = static_cast<double>(stages), m = micro_batches;
        REQUIRE(std::abs(trace.bubble() - (k - 1) / (m + k - 1)) < 1e-9);
        REQUIRE(std::abs(trace.seconds - (m + k - 1) * (forward + backward)) < 1e-9 * trace.seconds);
      }
    }
  }
}

TEST_CASE("with links a batch of gpipe takes the time of the closed form") {
  Random random(2);
  for (int attempt = 0; attempt < 300; ++attempt) {
    const std::size_t stages = 2 + random.below(6);
    const auto micro_batches = static_cast<std::uint32_t>(1 + random.below(12));
    PipelineTimes times = equal_times(stages, random.uniform(0.5, 3), random.uniform(0.5, 3));
    const StageLink link{random.uniform(0, 2), random.uniform(1, 5), random.uniform(0, 20)};
    times.links.assign(stages - 1, link);
    const double transfer = link.bytes / link.bandwidth;
    // One way: the first micro-batch passes all stages and links, and the others follow at the pace of the
    // slower of computing and transferring.
    const auto one_way = [&](double compute) {
      const double k = static_cast<double>(stages);
      return k * compute + (k - 1) * (transfer + link.latency) +
             (micro_batches - 1) * std::max(compute, transfer);
    };
    const StageTimes& stage = times.stages[0];
    const double expected = one_way(stage.forward) + one_way(stage.backward);
    const auto trace = time_pipeline(straight(PipelineSchedule::gpipe, stages, micro_batches), times);
    REQUIRE(std::abs(trace.seconds - expected) < 1e-9 * expected);
  }
}

TEST_CASE("1f1b keeps at most K - s micro-batches, gpipe all") {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    for (std::uint32_t micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      const auto most = [&](PipelineSchedule schedule, std::size_t s) {
        return time_pipeline(straight(schedule, stages, micro_batches), equal_times(stages, 1, 2))
            .replicas[s]
            .most_in_flight;
      };
      for (std::size_t s = 0; s < stages; ++s) {
        REQUIRE(most(PipelineSchedule::one_f_one_b, s) == std::min<std::size_t>(stages - s, micro_batches));
        REQUIRE(most(PipelineSchedule::gpipe, s) == micro_batches);
      }
    }
  }
}

TEST_CASE("in its steady state PipeDream is never idle and uses weights exactly w_s updates old") {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    const std::uint64_t batches = 40;
    const auto shape = straight(PipelineSchedule::pipedream, stages, 1, batches);
    const auto trace = time_pipeline(shape, equal_times(stages, 1, 2));
    const double from = 3.0 * static_cast<double>(stages), to = trace.seconds - from;
    std::vector<double> ended(stages, from);
    for (const auto& entry : trace.entries) {
      const std::uint64_t w = warm_up_passes(shape, entry.stage), number = entry.work.task.number;
      if (entry.work.task.kind == TaskKind::update) {
        REQUIRE(entry.work.version == number);
        continue;
      }
      REQUIRE(entry.work.version == number - std::min(number, w));
      if (entry.begin >= from && entry.end <= to) {
        REQUIRE((ended[entry.stage] == from || ended[entry.stage] == entry.begin));
        ended[entry.stage] = entry.end;
      }
    }
    for (std::size_t s = 0; s < stages; ++s) {
      const std::uint64_t w = stages - 1 - s;
      REQUIRE(trace.replicas[s].most_versions == w + 1);
      REQUIRE(trace.replicas[s].most_in_flight == w + 1);
    }
  }
}

TEST_CASE("with vertical sync all stages use the first stage's version, without stashing the newest") {
  const std::size_t stages = 4;
  const auto shape = straight(PipelineSchedule::pipedream, stages, 1, 20);
  const auto same = time_pipeline(shape, equal_times(stages, 1, 2), {.stash = true, .vertical_sync = true});
  for (const auto& entry : same.entries) {
    if (entry.work.task.kind == TaskKind::update) continue;
    const std::uint64_t number = entry.work.task.number;
    REQUIRE(entry.work.version == number - std::min<std::uint64_t>(number, stages - 1));
  }
  for (const auto& replica : same.replicas) CHECK(replica.most_versions == stages);
  const auto newest =
      time_pipeline(shape, equal_times(stages, 1, 2), {.stash = false, .vertical_sync = false});
  bool differs = false;
  for (const auto& entry : newest.entries) {
    if (entry.work.task.kind != TaskKind::backward) continue;
    REQUIRE(entry.work.version == entry.work.task.number);
    differs = differs || entry.stage < stages - 1;
  }
  CHECK(differs);
  for (const auto& replica : newest.replicas) CHECK(replica.most_versions == 1);
}

TEST_CASE("with updates after several micro-batches PipeDream keeps two versions") {
  const std::size_t stages = 4;
  const auto trace =
      time_pipeline(straight(PipelineSchedule::pipedream, stages, 4, 10), equal_times(stages, 1, 2));
  for (const auto& replica : trace.replicas) CHECK(replica.most_versions <= 2);
  CHECK(trace.replicas[0].most_versions == 2);
}

TEST_CASE("a machine refuses messages that are not its own, not awaited, or came before") {
  StageMachine machine(straight(PipelineSchedule::gpipe, 3, 2), 1, 0);
  using Kind = StageMessage::Kind;
  const StageMessage good{Kind::activations, 0, 0, 1, 0, 0};
  REQUIRE(machine.arrived(good).ok());
  for (const StageMessage& bad :
       {good, StageMessage{Kind::activations, 2, 0, 1, 0, 0}, StageMessage{Kind::activations, 1, 0, 2, 0, 0},
        StageMessage{Kind::activations, 1, 0, 1, 1, 0}, StageMessage{Kind::share, 0, 0, 1, 0, 1},
        StageMessage{Kind::gradient, 7, 0, 1, 0, 0}})
    CHECK_FALSE(machine.arrived(bad).ok());
  REQUIRE(machine.ready().has_value());
  machine.begin();
  REQUIRE_FALSE(machine.ready().has_value());
  const auto sent = machine.finish();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0] == StageMessage{Kind::activations, 0, 0, 2, 0, 0});
  CHECK_FALSE(machine.arrived(good).ok());
}

}  // namespace starling::training
