// Stages, and parts of layers, on devices of their own compute the same as on the host.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/buffer.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/models/plans.h"
#include "tests/training/staged_plans.h"
#include "training/learning/slices/sliced_network.h"
#include "training/learning/stages/stage_memory.h"
#include "training/learning/stages/staged_network.h"
#include "training/learning/stages/streamed_network.h"

namespace starling::training {
namespace {

using namespace testing;
using models::Plan;

// Back ends on this many devices, or, if the machine has fewer, several on each; empty without any.
std::vector<std::unique_ptr<kernels::Backend>> device_backends(std::size_t count) {
  std::vector<std::unique_ptr<kernels::Backend>> backends;
  const kernels::CudaModule* module = kernels::gpu_module();
  if (module == nullptr) return backends;
  const auto devices = static_cast<std::size_t>(module->devices()->size());
  for (std::size_t k = 0; k < count; ++k) {
    auto backend = module->make_backend(static_cast<int>(k % devices), kernels::Precision::f32);
    REQUIRE(backend.ok());
    backends.push_back(std::move(*backend));
  }
  return backends;
}

std::vector<const kernels::Backend*> of_devices(
    const std::vector<std::unique_ptr<kernels::Backend>>& backends) {
  std::vector<const kernels::Backend*> them;
  for (const auto& backend : backends) them.push_back(backend.get());
  return them;
}

// The largest distance of the gradient's parts [begin, end), relative to the largest magnitude.
double largest_distance(const kernels::Buffer& a, const kernels::Buffer& b, std::size_t begin,
                        std::size_t end) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = begin; i < end; ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a.data()[i])));
  }
  return most / largest;
}

void check_on_devices(const Plan& plan, StagedOptions options, Random& random) {
  const auto backends = device_backends(shape_of(options).all_replicas());
  if (backends.empty()) return;
  const int batch = 2 * static_cast<int>(options.micro_batches);
  const kernels::Backend& host = models::backend("reference");
  StagedNetwork on_host(plan, host, batch, options);
  options.backends = of_devices(backends);
  StagedNetwork on_gpus(plan, host, batch, options);
  kernels::Buffer x(plan.layout.arena_size()), expected(x.size()), found(x.size());
  models::initialize(plan, Random(5), x.values());
  for (int step = 0; step < 2; ++step) {
    const models::Batch samples = batch_of(random, plan, batch);
    const double loss =
        on_host.train(x.data(), samples.inputs.data(), samples.labels.data(), expected.data());
    const double there = on_gpus.train(x.data(), samples.inputs.data(), samples.labels.data(), found.data());
    REQUIRE(std::abs(loss - there) <= 1e-5 * loss);
    const std::size_t trained = plan.layout.trained_size();
    REQUIRE(largest_distance(expected, found, 0, trained) <= 1e-4);
    REQUIRE(largest_distance(expected, found, trained, x.size()) <= 1e-4);
  }
}

// The parameters after batches that pass through the stages without a flush.
std::vector<float> after_stream(const Plan& plan, const StagedOptions& options, std::uint64_t batches) {
  const kernels::Backend& host = models::backend("reference");
  StreamedNetwork network(plan, host, 2, options);
  models::Arena arena(plan.layout.arena_size());
  models::initialize(plan, Random(5), arena);
  network.set_apply([&](const StreamedNetwork::Update& update) {
    for (const auto& [begin, end] : network.ranges(update.stage)) {
      std::vector<float> change(update.gradient + begin, update.gradient + end);
      if (begin < plan.layout.trained_size())
        for (float& value : change) value *= -0.1F;
      arena.add(begin, change);
    }
  });
  Random random(7);
  for (std::uint64_t k = 0; k < batches; ++k) {
    const models::Batch batch = batch_of(random, plan, 2);
    network.feed(arena, batch.inputs.data(), batch.labels.data(), 1);
  }
  while (network.land()) {
  }
  std::vector<float> parameters(arena.size());
  arena.read(0, parameters);
  return parameters;
}

void check_slices_on_devices(const Plan& plan, std::size_t parts) {
  const auto backends = device_backends(parts);
  if (backends.empty()) return;
  Random random(32);
  const kernels::Backend& host = models::backend("reference");
  SlicedNetwork on_host(plan, host, 3, {parts, 9});
  SlicedNetwork on_gpus(plan, host, 3, {parts, 9, of_devices(backends)});
  kernels::Buffer x(plan.layout.arena_size()), expected(x.size()), found(x.size());
  models::initialize(plan, Random(5), x.values());
  for (int step = 0; step < 2; ++step) {
    const models::Batch batch = batch_of(random, plan, 3);
    const double loss = on_host.train(x.data(), batch.inputs.data(), batch.labels.data(), expected.data());
    const double there = on_gpus.train(x.data(), batch.inputs.data(), batch.labels.data(), found.data());
    REQUIRE(std::abs(loss - there) <= 1e-5 * loss);
    REQUIRE(largest_distance(expected, found, 0, x.size()) <= 1e-4);
  }
}

}  // namespace

TEST_CASE("the memory of each device is within 10 % of the predicted one", "[gpu][figures]") {
  // A real device gives memory in larger pieces, and other programs take some.
  if (kernels::gpu_is_a_must() || kernels::gpu_module() == nullptr) return;
  const auto backends = device_backends(2);
  const auto taken = [&](std::size_t k) {
    const kernels::Room room = *backends[k]->memory().room();
    return static_cast<double>(room.total - room.free);
  };
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (const auto recomputation : {Recomputation::never, Recomputation::always}) {
      const Plan plan = zoo("resnet8", {3, 32, 32});
      StagedOptions options{
          .cuts = {9}, .schedule = schedule, .micro_batches = 4, .recomputation = recomputation};
      const auto predicted = predict_stage_memory(plan, *backends[0], 8, {{1, 1}, schedule, 4, 1}, options);
      options.backends = of_devices(backends);
      const double before[] = {taken(0), taken(1)};
      StagedNetwork network(plan, models::backend("reference"), 32, options);
      Random random(8);
      const models::Batch batch = batch_of(random, plan, 32);
      kernels::Buffer x(plan.layout.arena_size()), gradient(x.size());
      models::initialize(plan, Random(5), x.values());
      network.train(x.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
      for (std::size_t s = 0; s < 2; ++s) {
        const auto expected = static_cast<double>(predicted[s].total());
        INFO(pipeline_traits(schedule).name << ", stage " << s << ": " << predicted[s].sections << " "
                                            << predicted[s].crossings << " " << predicted[s].gradients);
        CHECK(std::abs(taken(s) - before[s] - expected) <= 0.1 * expected);
      }
    }
  }
}

TEST_CASE("PipeDream's stages on devices train like those on the host", "[gpu][figures]") {
  Random random(33);
  std::vector<Plan> plans = plans_for_stages();
  plans.pop_back();  // a stage reads a tied tensor while another one changes it, at no certain time
  for (const Plan& plan : plans) {
    for (const std::size_t stages : {2U, 4U}) {
      const auto backends = device_backends(stages);
      if (backends.empty()) return;
      for (const bool vertical_sync : {false, true}) {
        StagedOptions options{.cuts = cuts_for(random, plan, stages),
                              .schedule = PipelineSchedule::pipedream,
                              .recomputation = Recomputation::always,
                              .vertical_sync = vertical_sync};
        const std::vector<float> expected = after_stream(plan, options, 7);
        options.backends = of_devices(backends);
        const std::vector<float> found = after_stream(plan, options, 7);
        INFO(plan.spec.name << ", " << stages << " stages, vertical sync " << vertical_sync);
        for (std::size_t i = 0; i < expected.size(); ++i)
          REQUIRE(std::abs(expected[i] - found[i]) <= 2e-4F * std::max(1.0F, std::abs(expected[i])));
      }
    }
  }
}

TEST_CASE("replicas of stages on devices train like those on the host", "[gpu]") {
  Random random(34);
  for (const Plan& plan : plans_for_stages()) {
    StagedOptions options{.cuts = cuts_for(random, plan, 3),
                          .schedule = PipelineSchedule::one_f_one_b,
                          .micro_batches = 4,
                          .replicas = {2, 1, 1}};
    INFO(plan.spec.name);
    check_on_devices(plan, options, random);
    if (plan.spec.name == "text") continue;  // a tied tensor: as above
    const auto backends = device_backends(4);
    if (backends.empty()) return;
    options.schedule = PipelineSchedule::pipedream;
    options.micro_batches = 1;
    const std::vector<float> expected = after_stream(plan, options, 8);
    options.backends = of_devices(backends);
    const std::vector<float> found = after_stream(plan, options, 8);
    for (std::size_t i = 0; i < expected.size(); ++i)
      REQUIRE(std::abs(expected[i] - found[i]) <= 2e-4F * std::max(1.0F, std::abs(expected[i])));
  }
}

TEST_CASE("layers that are divided among devices have the gradient of those on the host", "[gpu]") {
  for (const Plan& plan : plans_for_stages()) {
    for (const std::size_t parts : {2U, 3U}) {
      INFO(plan.spec.name << ", " << parts << " parts");
      if (check_slices(plan, 3, {parts, 9}).ok()) check_slices_on_devices(plan, parts);
    }
  }
}

TEST_CASE("stages on devices have the gradient of stages on the host", "[gpu][figures]") {
  Random random(31);
  for (const Plan& plan : plans_for_stages()) {
    for (const std::size_t stages : {2U, 4U}) {
      for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
        for (const auto recomputation :
             {Recomputation::never, Recomputation::except_last, Recomputation::always}) {
          const StagedOptions options{.cuts = cuts_for(random, plan, stages),
                                      .schedule = schedule,
                                      .micro_batches = 3,
                                      .recomputation = recomputation};
          INFO(plan.spec.name << ", " << pipeline_traits(schedule).name << ", " << stages << " stages");
          check_on_devices(plan, options, random);
        }
      }
    }
  }
}

}  // namespace starling::training
