// A network in stages on threads: its loss, gradient and running statistics are those of the whole network
// for the same micro-batches.
#include "training/learning/stages/staged_network.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/buffer.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/training/staged_plans.h"
#include "training/learning/stages/stage_links.h"
#include "training/learning/stages/stage_memory.h"
#include "training/learning/stages/stage_threads.h"
#include "training/learning/stages/streamed_network.h"

namespace starling::training {
namespace {

using namespace testing;
using models::Plan;

// The definition: the mean of the micro-batches' gradients, summed in the order of their backward passes.
struct Whole {
  Whole(const Plan& of, const kernels::Backend& on, int micro)
      : plan(of), network(of, on, micro, models::NetworkUse::train) {}

  double train(std::vector<float>& x, const models::Batch& batch, std::size_t micro_batches, bool backwards,
               std::vector<float>& sum) {
    const std::size_t inputs = batch.inputs.size() / micro_batches,
                      labels = batch.labels.size() / micro_batches;
    double loss = 0;
    std::vector<float> one(x.size());
    for (std::size_t k = 0; k < micro_batches; ++k) {
      const std::size_t i = backwards ? micro_batches - 1 - k : k;
      network.set_draws(draws + i);
      loss += network.train(x.data(), batch.inputs.data() + i * inputs, batch.labels.data() + i * labels,
                            one.data());
      for (std::size_t f = 0; f < x.size(); ++f) sum[f] = k == 0 ? one[f] : sum[f] + one[f];
    }
    draws += micro_batches;
    if (micro_batches > 1)
      for (float& value : sum) value *= 1 / static_cast<float>(micro_batches);
    return loss / static_cast<double>(micro_batches);
  }

  const Plan& plan;
  models::Network network;
  std::uint64_t draws = 0;
};

// Of the trained parameters, relative to the largest; the whole arena if there is one micro-batch.
double difference(const std::vector<float>& a, std::span<const float> b, std::size_t floats) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < floats; ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return most / largest;
}

std::string refusal_of(const Plan& plan, int batch, const StagedOptions& options) {
  const Status status = check_stages(plan, batch, options);
  return status.ok() ? "" : status.error().message;
}

void check_equal(const std::string& on, const Plan& plan, const StagedOptions& options, int micro,
                 Random& random) {
  const auto m = static_cast<int>(options.micro_batches);
  std::vector<float> x = first_values(plan), expected(x.size());
  const Aligned parameters(x);
  kernels::Buffer found(x.size());
  Whole whole(plan, models::backend(on), micro);
  StagedNetwork staged(plan, models::backend(on), micro * m, options);
  for (int step = 0; step < 2; ++step) {
    const models::Batch batch = batch_of(random, plan, micro * m);
    const bool backwards = options.schedule == PipelineSchedule::gpipe;
    const double loss = whole.train(x, batch, options.micro_batches, backwards, expected);
    const double loss_of_stages =
        staged.train(parameters.buffer.data(), batch.inputs.data(), batch.labels.data(), found.data());
    const std::size_t floats = m == 1 ? x.size() : plan.layout.trained_size();
    const double apart = difference(expected, found.values(), floats);
    if (on == "reference" && options.replicas.empty()) {
      REQUIRE(apart == 0);
      REQUIRE(std::abs(loss - loss_of_stages) <= 1e-14 * loss);
    } else {
      REQUIRE(apart <= 1e-6);
      REQUIRE(std::abs(loss - loss_of_stages) <= 1e-6 * loss);
    }
  }
}

}  // namespace

TEST_CASE("stages have the gradient of the whole for the same micro-batches, bit by bit in reference",
          "[figures]") {
  Random random(11);
  for (const Plan& plan : plans_for_stages()) {
    for (std::size_t stages = 1; stages <= 4; ++stages) {
      for (std::uint32_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
        for (const auto schedule :
             {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::layer_wise}) {
          if (!pipeline_traits(schedule).splits && micro_batches > 1) continue;
          for (const auto recomputation :
               {Recomputation::never, Recomputation::except_last, Recomputation::always}) {
            const StagedOptions options{cuts_for(random, plan, stages), schedule, micro_batches,
                                        recomputation, 0};
            INFO(plan.spec.name << ", " << pipeline_traits(schedule).name << ", " << stages << " stages, "
                                << micro_batches << " micro-batches, recomputation "
                                << kRecomputations[static_cast<std::size_t>(recomputation)].name);
            check_equal("reference", plan, options, 1, random);
          }
        }
      }
    }
  }
}

TEST_CASE("stages on the processor have the gradient of the whole to 1e-6, also of a larger network",
          "[arena]") {
  Random random(12);
  std::vector<Plan> plans = plans_for_stages();
  plans.push_back(zoo("resnet8", {3, 32, 32}));
  for (const Plan& plan : plans) {
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
      for (const auto recomputation :
           {Recomputation::never, Recomputation::except_last, Recomputation::always}) {
        const StagedOptions options{cuts_for(random, plan, 3), schedule, 4, recomputation, 0};
        INFO(plan.spec.name << ", " << pipeline_traits(schedule).name << ", cuts at " << options.cuts[0]
                            << " and " << options.cuts[1]);
        check_equal("cpu", plan, options, 2, random);
      }
    }
  }
}

TEST_CASE("replicas of stages have the gradient of the whole, up to the order of summation", "[arena]") {
  Random random(14);
  for (const Plan& plan : plans_for_stages()) {
    for (const std::vector<std::uint32_t>& replicas :
         {std::vector<std::uint32_t>{2}, {2, 1, 1}, {1, 4}, {2, 4, 1}, {3, 2}}) {
      for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
        StagedOptions options{cuts_for(random, plan, replicas.size()), schedule};
        options.micro_batches = replicas[0] == 3 ? 6 : 8;
        options.recomputation = static_cast<Recomputation>(random.below(3));
        options.replicas = replicas;
        INFO(plan.spec.name << ", " << pipeline_traits(schedule).name << ", " << replicas.size()
                            << " stages, the first with " << replicas[0] << " replicas");
        check_equal("reference", plan, options, 1, random);
        check_equal("cpu", plan, options, 2, random);
      }
    }
  }
}

TEST_CASE("running statistics change once for a batch, by the statistics of all its samples") {
  const Plan plan = planned(
      {"normalized",
       {2, 5, 5},
       {models::Convolution{3, 3, 1, 1}, models::BatchNorm{1e-5, 0.25}, models::Relu{}, models::Linear{3}}});
  Random random(13);
  std::vector<float> x = first_values(plan), whole(x.size());
  for (std::size_t i = plan.layout.trained_size(); i < x.size(); ++i) x[i] = 0.5F;
  const Aligned parameters(x);
  for (const std::vector<std::uint32_t>& replicas : {std::vector<std::uint32_t>{}, {2, 1}, {4, 2}}) {
    const int micro = replicas.size() == 2 ? 1 : 3;
    const models::Batch batch = batch_of(random, plan, 4 * micro);
    models::Network network(plan, models::backend("reference"), 4 * micro, models::NetworkUse::train);
    network.train(x.data(), batch.inputs.data(), batch.labels.data(), whole.data());
    StagedOptions options{{2}, PipelineSchedule::one_f_one_b, 4, Recomputation::always, 0};
    options.replicas = replicas;
    StagedNetwork staged(plan, models::backend("reference"), 4 * micro, options);
    kernels::Buffer found(x.size());
    staged.train(parameters.buffer.data(), batch.inputs.data(), batch.labels.data(), found.data());
    for (std::size_t i = plan.layout.trained_size(); i < x.size(); ++i) {
      INFO(i - plan.layout.trained_size());
      REQUIRE(std::abs(static_cast<double>(whole[i]) - static_cast<double>(found.values()[i])) < 1e-6);
    }
  }
}

TEST_CASE("a part that fails ends the round of all threads, and the next round computes again", "[arena]") {
  StageInboxes inboxes(PipelineShape{.replicas = {1, 1, 1}});
  int failing = 2;
  std::vector<int> rounds(3);
  std::vector<std::vector<StageMessage>> got(3);
  StageThreads threads(
      3,
      [&](std::size_t part) {
        if (static_cast<int>(part) == failing) throw std::runtime_error("device " + std::to_string(part));
        if (failing < 0 && part == 0) inboxes.send({StageMessage::Kind::gradient, 7, 0, 1, 0, 0});
        if (failing >= 0 || part == 1) inboxes.await(part, got[part]);  // nothing comes: only stop() ends it
        ++rounds[part];
      },
      [&] { inboxes.stop(); });
  for (int round = 0; round < 20; ++round) {
    failing = round % 2 == 0 ? round % 3 : -1;
    inboxes.clear();
    if (failing < 0) {
      threads.run();
    } else {
      REQUIRE_THROWS_WITH(threads.run(), "device " + std::to_string(failing));
    }
  }
  CHECK(got[1].size() == 10);
  CHECK(rounds[0] + rounds[1] + rounds[2] == 10 * 2 + 10 * 3);
}

TEST_CASE("1f1b and recomputation keep fewer activations than gpipe") {
  const Plan plan = zoo("lenet", {1, 28, 28});
  const auto sections = [&](PipelineSchedule schedule, Recomputation recomputation) {
    return StagedNetwork(plan, models::backend("cpu"), 16, {{3}, schedule, 8, recomputation, 0})
        .memory(0)
        .sections;
  };
  const std::size_t gpipe = sections(PipelineSchedule::gpipe, Recomputation::never);
  CHECK(sections(PipelineSchedule::one_f_one_b, Recomputation::never) * 4 == gpipe);
  CHECK(sections(PipelineSchedule::gpipe, Recomputation::except_last) * 8 == gpipe);
}

TEST_CASE("the memory of stages is predicted without building them") {
  Random random(17);
  for (const Plan& plan : plans_for_stages()) {
    for (const std::size_t count : {1U, 2U, 4U}) {
      for (const auto schedule :
           {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::pipedream}) {
        for (const auto recomputation : {Recomputation::never, Recomputation::always}) {
          StagedOptions options{cuts_for(random, plan, count), schedule, 6, recomputation, 0};
          for (std::size_t s = 0; s < count; ++s)
            options.replicas.push_back(1 + static_cast<std::uint32_t>(random.below(3)));
          const bool flushes = pipeline_traits(schedule).flushes;
          const PipelineShape shape = shape_of(options, flushes ? 1 : 24);
          const auto found = predict_stage_memory(plan, models::backend("cpu"), 2, shape, options);
          INFO(plan.spec.name << ", " << pipeline_traits(schedule).name << ", " << count << " stages");
          REQUIRE(found.size() == count);
          const auto check = [&](const auto& network) {
            for (std::size_t s = 0; s < count; ++s) {
              const StageMemory is = network.memory(shape.number_of(s + 1, 0) - 1);
              CHECK(found[s].sections == is.sections);
              CHECK(found[s].crossings == is.crossings);
              CHECK(found[s].gradients == is.gradients);
              CHECK(found[s].versions == is.versions);
            }
          };
          if (flushes) {
            check(StagedNetwork(plan, models::backend("cpu"), 12, options));
          } else {
            check(StreamedNetwork(plan, models::backend("cpu"), 2, options));
          }
        }
      }
    }
  }
}

TEST_CASE("impossible stages are an error that says what is possible") {
  const Plan plan = planned({"small", {1, 2, 2}, {models::Linear{3}, models::Relu{}, models::Linear{2}}});
  CHECK(refusal_of(plan, 4, {{1, 2}, PipelineSchedule::gpipe, 2, Recomputation::never, 0}).empty());
  CHECK(refusal_of(plan, 4, {{1, 2, 3}, PipelineSchedule::gpipe, 2, Recomputation::never, 0}) ==
        "4 stages are impossible: small has 3 layers, so at most as many stages");
  CHECK(refusal_of(plan, 4, {{2, 1}, PipelineSchedule::gpipe, 2, Recomputation::never, 0}) ==
        "a stage cannot begin with layer 1: cuts are ascending, from 1 to 2");
  CHECK(refusal_of(plan, 4, {{1}, PipelineSchedule::gpipe, 3, Recomputation::never, 0}) ==
        "a batch of 4 samples cannot be divided into 3 micro-batches of equal size");
  StagedOptions replicated{{1}, PipelineSchedule::one_f_one_b, 3, Recomputation::never, 0};
  replicated.replicas = {2, 1};
  CHECK(refusal_of(plan, 6, replicated) ==
        "3 micro-batches cannot be divided equally among 2 replicas of a stage");
  replicated.replicas = {2};
  CHECK(refusal_of(plan, 6, replicated) == "1 numbers of replicas, but 2 stages");
  replicated.replicas = {2, 1};
  replicated.schedule = PipelineSchedule::pipedream;
  CHECK(refusal_of(plan, 6, replicated).empty());
  replicated.vertical_sync = true;
  CHECK(refusal_of(plan, 6, replicated) ==
        "with vertical sync all stages need as many replicas: one with fewer makes more updates");
  CHECK(refusal_of(plan, 3, {{1}, PipelineSchedule::pipedream, 2, Recomputation::never, 0}).empty());
}

}  // namespace starling::training
