// The times of stages: by a clock of the test, and in real networks beside a tracer of their operations.
#include "training/learning/stages/stage_clock.h"

#include <array>
#include <deque>

#include "models/arena.h"
#include "tests/catch.h"
#include "tests/training/staged_plans.h"
#include "tests/training/traced_backend.h"
#include "training/learning/stages/staged_network.h"
#include "training/learning/stages/streamed_network.h"

namespace starling::training {
namespace {

using namespace testing;

// Two stages whose machines the test drives.
struct Driven {
  explicit Driven(PipelineShape its) : shape(std::move(its)), clock(shape, [this] { return now; }) {
    for (std::size_t stage = 0; stage < shape.stages(); ++stage) machines.emplace_back(shape, stage, 0);
  }

  // The next task of a stage, which takes so long; then the other one gets its result.
  void work(std::size_t stage, double seconds) {
    StageMachine& machine = machines[stage];
    REQUIRE(machine.ready());
    clock.begin(machine, machine.begin());
    now += seconds;
    clock.end(machine);
    for (const StageMessage& message : machine.finish())
      REQUIRE(machines[message.stage].arrived(message).ok());
  }

  PipelineShape shape;
  double now = 100;
  StageClock clock;
  std::deque<StageMachine> machines;
};

// A network in two stages, each on a traced back end.
struct Traced {
  Traced(PipelineSchedule schedule, std::uint32_t micro_batches) : options{{6}, schedule, micro_batches} {
    for (const TracedBackend& backend : backends) options.backends.push_back(&backend);
    models::initialize(plan, Random(5), values);
  }

  // What follows is compared: the first batches also touch fresh memory, outside of operations.
  void begin(const StageClock& clock) {
    before = clock.read();
    for (std::size_t stage = 0; stage < backends.size(); ++stage)
      traced_before[stage] = backends[stage].seconds();
  }
  // Compares what the clock and the tracers measured since begin().
  void check(const StageClock& clock, std::uint64_t steps) const {
    const StageClock::Reading reading = clock.read();
    CHECK(reading.steps - before.steps == steps);
    for (std::size_t stage = 0; stage < backends.size(); ++stage) {
      const double busy = reading.trace.replicas[stage].busy - before.trace.replicas[stage].busy;
      const double traced = backends[stage].seconds() - traced_before[stage];
      INFO("stage " << stage << ": " << busy << " s, traced " << traced << " s");
      CHECK(traced > 0);
      CHECK(busy >= traced);
      CHECK(busy <= 1.05 * traced);
    }
    const double both = reading.trace.replicas[0].busy + reading.trace.replicas[1].busy;
    CHECK(2 * reading.trace.seconds >= both);
    CHECK(reading.trace.bubble() == Approx(1 - both / (2 * reading.trace.seconds)));
  }

  models::Plan plan = zoo("lenet", {1, 28, 28});
  const kernels::Backend& reference = models::backend("reference");
  std::array<TracedBackend, 2> backends{TracedBackend(reference), TracedBackend(reference)};
  StagedOptions options;
  std::vector<float> values = std::vector<float>(plan.layout.arena_size());
  StageClock::Reading before{};
  std::array<double, 2> traced_before{};
};

constexpr int kBatch = 32, kSteps = 6;

}  // namespace

TEST_CASE("a clock of stages sums what each computes while batches are in them, and shows the last batch") {
  Driven driven({{1, 1}, PipelineSchedule::gpipe, 2, 1});
  CHECK(driven.clock.read().trace.bubble() == 0);
  driven.clock.start();
  driven.work(0, 1);
  driven.work(0, 1);
  driven.work(1, 3);
  {  // a task under way counts
    const StageWork work = driven.machines[1].begin();
    driven.clock.begin(driven.machines[1], work);
    driven.now += 2;
    const auto reading = driven.clock.read();
    CHECK(reading.trace.replicas[1].busy == 5);
    CHECK(reading.trace.seconds == 7);
    CHECK(reading.trace.entries.empty());
    driven.now += 1;
    driven.clock.end(driven.machines[1]);
    for (const StageMessage& message : driven.machines[1].finish())
      REQUIRE(driven.machines[message.stage].arrived(message).ok());
  }
  driven.work(1, 1);
  driven.work(1, 1);
  driven.work(0, 2);
  driven.work(0, 2);
  driven.clock.stop();
  driven.now += 1000;  // between two batches
  const auto reading = driven.clock.read();
  CHECK(reading.steps == 1);
  CHECK(reading.trace.seconds == 14);
  CHECK(reading.trace.replicas[0].busy == 6);
  CHECK(reading.trace.replicas[1].busy == 8);
  CHECK(reading.trace.bubble() == Approx(0.5));
  CHECK(reading.trace.replicas[0].most_in_flight == 2);
  CHECK(reading.trace.replicas[0].most_versions == 1);
  REQUIRE(reading.trace.entries.size() == 8);
  CHECK(reading.trace.entries[0].begin == 0);
  CHECK(reading.trace.entries[0].end == 1);
  CHECK(reading.trace.entries.back().stage == 0);
  CHECK(reading.trace.entries.back().end == 14);
}

TEST_CASE("without a flush the clock shows some of the latest batches, and how many versions a stage keeps") {
  constexpr std::uint64_t kBatches = 4 * StageClock::kBatchesShown;
  Driven driven({{1, 1}, PipelineSchedule::pipedream, 1, kBatches});
  driven.clock.start();
  for (std::uint64_t t = 0; t < 6 * kBatches; ++t) driven.work(driven.machines[1].ready() ? 1 : 0, 0.5);
  driven.clock.stop();
  const auto reading = driven.clock.read();
  CHECK(reading.steps == kBatches);
  CHECK(reading.trace.seconds == 0.5 * 6 * kBatches);
  CHECK(reading.trace.bubble() == Approx(0.5));
  CHECK(reading.trace.replicas[0].most_versions == 2);
  CHECK(reading.trace.replicas[1].most_versions == 1);
  REQUIRE(reading.trace.entries.size() == 6 * StageClock::kBatchesShown);
  CHECK(reading.trace.entries.front().begin == 0);
  CHECK(reading.trace.entries.front().work.task.number > 0);
  CHECK(reading.trace.entries.back().end == 0.5 * 6 * StageClock::kBatchesShown);
}

TEST_CASE("the times of stages with a flush equal what a tracer measures, within 5 %") {
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    INFO(pipeline_traits(schedule).name);
    Traced traced(schedule, 4);
    const Aligned parameters(traced.values);
    kernels::Buffer gradient(traced.values.size());
    StagedNetwork network(traced.plan, traced.reference, kBatch, traced.options);
    Random random(3);
    for (int step = 0; step <= kSteps; ++step) {
      const models::Batch batch = batch_of(random, traced.plan, kBatch);
      network.train(parameters.buffer.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
      if (step == 0) traced.begin(*network.clock());
    }
    traced.check(*network.clock(), kSteps);
    CHECK(network.clock()->read().trace.entries.size() == 2 * (2 * 4 + 1));
  }
}

TEST_CASE("the times of stages without a flush equal what a tracer measures, within 5 %") {
  Traced traced(PipelineSchedule::pipedream, 1);
  models::Arena arena(traced.values.size());
  arena.write(0, traced.values);
  StreamedNetwork network(traced.plan, traced.reference, kBatch, traced.options);
  network.set_apply([](const StreamedNetwork::Update&) {});
  Random random(3);
  for (const int steps : {3, kSteps}) {  // two streams
    traced.begin(*network.clock());
    for (int step = 0; step < steps; ++step) {
      const models::Batch batch = batch_of(random, traced.plan, kBatch);
      network.feed(arena, batch.inputs.data(), batch.labels.data(), 1);
    }
    while (network.land()) {
    }
  }
  traced.check(*network.clock(), kSteps);
  CHECK(network.clock()->read().trace.replicas[0].most_versions == 2);
}

}  // namespace starling::training
