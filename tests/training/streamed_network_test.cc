// A network in stages without a flush: each stage computes with parameters that are as many updates old as
// the schedule says, in both passes of a batch.
#include "training/learning/stages/streamed_network.h"

#include <array>
#include <numeric>
#include <random>

#include "models/arena.h"
#include "tests/catch.h"
#include "tests/training/staged_plans.h"

namespace starling::training {
namespace {

using namespace testing;
using models::Plan;

constexpr double kRate = 0.05;
double factor_of(std::uint64_t batch) { return 1 - 0.1 * static_cast<double>(batch % 4); }

// Plain gradient descent: x -= rate * gradient, and running statistics change by their gradient.
void descend(const Plan& plan, const FloatRange& range, const float* gradient, double factor, float* x) {
  const auto rate = static_cast<float>(kRate * factor);
  const bool trained = range.first < plan.layout.trained_size();
  for (std::size_t i = range.first; i < range.second; ++i)
    x[i] += trained ? -rate * gradient[i] : gradient[i];
}

// The definition, after PipeDream's sections 3.1 and 3.3. A replica of stage s (from 0), of r, makes w
// forward passes before its first backward pass: as many as the replicas from this stage on, without one,
// divided by r. So for its k-th batch it has completed max(0, k - w) backward passes, and with the other
// replicas an update for M batches of each. The gradient of batch t, the k-th of replica t mod r, is that of
// the whole network whose stages have these versions of the parameters.
struct Definition {
  Definition(const Plan& of, const StreamedNetwork& staged, StagedOptions its, int batch)
      : plan(of),
        options(std::move(its)),
        replicas(shape_of(options).replicas),
        network(of, models::backend("reference"), batch, models::NetworkUse::train) {
    for (std::size_t s = 0; s < staged.stages(); ++s) ranges.push_back(staged.ranges(s));
  }

  std::uint64_t version(std::size_t stage, std::uint64_t batch) const {
    const std::size_t from = options.vertical_sync ? 0 : stage;
    const auto all =
        std::accumulate(replicas.begin() + static_cast<std::ptrdiff_t>(from), replicas.end(), 0U);
    const std::uint64_t ahead = (all - 1) / replicas[from], turn = batch / replicas[stage];
    return turn < ahead ? 0 : (turn - ahead) / options.micro_batches;
  }

  // The mean over batches [begin, end), summed for each replica of a stage and then over these.
  std::vector<float> mean(std::size_t stage, std::size_t begin, std::size_t end) const {
    std::vector<float> all;
    for (std::size_t replica = 0; replica < std::min<std::size_t>(replicas[stage], end - begin); ++replica) {
      std::vector<float> own = gradients[begin + replica];
      for (std::size_t t = begin + replica + replicas[stage]; t < end; t += replicas[stage])
        for (std::size_t i = 0; i < own.size(); ++i) own[i] += gradients[t][i];
      if (all.empty()) {
        all = std::move(own);
      } else {
        for (std::size_t i = 0; i < own.size(); ++i) all[i] += own[i];
      }
    }
    for (float& value : all) value /= static_cast<float>(end - begin);
    return all;
  }

  // A stream of these batches from `x`. Returns the losses; x becomes the result.
  std::vector<double> run(std::vector<float>& x, std::span<const models::Batch> batches) {
    // By stage and updates; of each only the stage's ranges count.
    std::vector<std::vector<std::vector<float>>> versions(ranges.size(), {x});
    std::vector<float> mixed(x.size()), one(x.size());
    std::vector<double> losses;
    gradients.clear();
    for (std::uint64_t t = 0; t < batches.size(); ++t) {
      for (std::size_t s = 0; s < ranges.size(); ++s) {
        for (const auto& [begin, end] : ranges[s])
          for (std::size_t i = begin; i < end; ++i) mixed[i] = versions[s].at(version(s, t))[i];
      }
      network.set_draws(draws++);
      losses.push_back(
          network.train(mixed.data(), batches[t].inputs.data(), batches[t].labels.data(), one.data()));
      gradients.push_back(one);
      for (std::size_t s = 0; s < ranges.size(); ++s) {
        const std::uint64_t round = options.micro_batches * replicas[s];
        if ((t + 1) % round != 0 && t + 1 < batches.size()) continue;
        versions[s].push_back(versions[s].back());
        const auto gradient = mean(s, t / round * round, t + 1);
        for (const FloatRange& range : ranges[s])
          descend(plan, range, gradient.data(), factor_of(t), versions[s].back().data());
      }
    }
    for (std::size_t s = 0; s < ranges.size(); ++s)
      for (const auto& [begin, end] : ranges[s])
        std::copy_n(versions[s].back().data() + begin, end - begin, x.data() + begin);
    return losses;
  }

  const Plan& plan;
  StagedOptions options;
  std::vector<std::uint32_t> replicas;
  models::Network network;
  std::vector<std::vector<FloatRange>> ranges;
  std::vector<std::vector<float>> gradients;  // of the stream's batches
  std::uint64_t draws = 0;
};

// A network in stages with its arena, which descends.
struct Streamed {
  Streamed(const Plan& of, const StagedOptions& options, int batch)
      : plan(of), arena(of.layout.arena_size()), network(of, models::backend("reference"), batch, options) {
    arena.write(0, first_values(of));
    network.set_apply([this](const StreamedNetwork::Update& update) {
      for (const FloatRange& range : network.ranges(update.stage)) {
        std::vector<float> x(arena.size());
        descend(plan, range, update.gradient, update.rate_factor, x.data());
        arena.add(range.first, std::span(x).subspan(range.first, range.second - range.first));
      }
      ++updates.at(update.stage);
    });
  }

  // A stream of these batches, to its end.
  std::vector<double> run(std::span<const models::Batch> batches) {
    std::vector<double> losses;
    const auto take = [&](std::optional<double> loss) {
      if (loss) losses.push_back(*loss);
      return loss.has_value();
    };
    for (std::size_t t = 0; t < batches.size(); ++t) {
      take(network.feed(arena, batches[t].inputs.data(), batches[t].labels.data(), factor_of(t)));
      REQUIRE(network.in_flight() <= network.most_in_flight());
    }
    while (take(network.land())) {
    }
    REQUIRE(network.in_flight() == 0);
    return losses;
  }
  std::vector<float> parameters() const {
    std::vector<float> x(arena.size());
    arena.read(0, x);
    return x;
  }

  const Plan& plan;
  models::Arena arena;
  StreamedNetwork network;
  std::array<std::uint64_t, 4> updates{};  // by stage; each stage's thread counts its own
};

std::vector<models::Batch> batches_for(Random& random, const Plan& plan, int samples, std::size_t count) {
  std::vector<models::Batch> batches;
  for (std::size_t t = 0; t < count; ++t) batches.push_back(batch_of(random, plan, samples));
  return batches;
}

StagedOptions options_for(std::vector<int> cuts, std::uint32_t updates_after = 1) {
  StagedOptions options;
  options.cuts = std::move(cuts);
  options.schedule = PipelineSchedule::pipedream;
  options.micro_batches = updates_after;
  return options;
}

// Those whose stages share no tensor: another stage would read it as it is at the moment.
std::vector<Plan> plans_for_streams() {
  std::vector<Plan> plans = plans_for_stages();
  plans.pop_back();
  models::Spec text{"text", {1, 1, 1, 6}, {}};
  text.layers = {models::Embedding{12, 6, 9, 0.02}, models::Position{},
                 models::TransformerBlock{.heads = 2, .dropout = 0.2}, models::LayerNorm{},
                 models::Linear{9}};
  plans.push_back(planned(std::move(text)));
  return plans;
}

}  // namespace

TEST_CASE("stages without a flush compute with parameters of the version that the schedule says") {
  const std::uint64_t seed = Random(std::random_device{}()).bits();
  INFO("seed " << seed);
  Random random(seed);
  for (const Plan& plan : plans_for_streams()) {
    for (std::size_t stages = 1; stages <= 4; ++stages) {
      for (const std::uint32_t updates_after : {1U, 2U, 3U}) {
        StagedOptions options = options_for(cuts_for(random, plan, stages), updates_after);
        options.vertical_sync = random.chance(0.5);
        options.recomputation = static_cast<Recomputation>(random.below(3));
        Streamed streamed(plan, options, 3);
        Definition definition(plan, streamed.network, options, 3);
        std::vector<float> x = first_values(plan);
        for (const std::size_t count : {std::size_t{7}, 1 + random.below(4), std::size_t{9}}) {
          const auto batches = batches_for(random, plan, 3, count);
          const auto losses = streamed.run(batches);
          INFO(plan.spec.name << ", " << stages << " stages, an update for " << updates_after << ", " << count
                              << " batches, sync " << options.vertical_sync);
          CHECK(losses == definition.run(x, batches));
          REQUIRE(streamed.parameters() == x);
        }
        for (std::size_t s = 0; s < stages; ++s) CHECK(streamed.updates.at(s) == streamed.updates[0]);
      }
    }
  }
}

TEST_CASE("replicas of a stage share the batches, and update together with the mean of their gradients") {
  const std::uint64_t seed = Random(std::random_device{}()).bits();
  INFO("seed " << seed);
  Random random(seed);
  for (const Plan& plan : plans_for_streams()) {
    for (const std::vector<std::uint32_t>& replicas :
         {std::vector<std::uint32_t>{2}, {2, 1, 1}, {1, 2}, {2, 2}, {3, 1, 2}, {1, 3}}) {
      for (const std::uint32_t updates_after : {1U, 2U}) {
        StagedOptions options = options_for(cuts_for(random, plan, replicas.size()), updates_after);
        options.replicas = replicas;
        options.recomputation = static_cast<Recomputation>(random.below(3));
        options.vertical_sync = replicas == std::vector<std::uint32_t>{2, 2} && random.chance(0.5);
        Streamed streamed(plan, options, 2);
        Definition definition(plan, streamed.network, options, 2);
        std::vector<float> x = first_values(plan);
        for (const std::size_t count : {std::size_t{12}, 1 + random.below(7), std::size_t{17}}) {
          const auto batches = batches_for(random, plan, 2, count);
          const auto losses = streamed.run(batches);
          INFO(plan.spec.name << ", " << replicas.size() << " stages, the first with " << replicas[0]
                              << " replicas, an update for " << updates_after << ", " << count << " batches");
          CHECK(losses == definition.run(x, batches));
          REQUIRE(streamed.parameters() == x);
        }
      }
    }
  }
}

TEST_CASE("without stashing a gradient is not that of any version of the parameters") {
  Random random(3);
  const Plan plan = zoo("lenet", {1, 14, 14});
  StagedOptions options = options_for({3, 5});
  const auto batches = batches_for(random, plan, 3, 8);
  std::vector<float> x = first_values(plan);
  Streamed stashing(plan, options, 3);
  Definition(plan, stashing.network, options, 3).run(x, batches);
  stashing.run(batches);
  CHECK(stashing.parameters() == x);
  options.stash = false;
  Streamed without(plan, options, 3);
  without.run(batches);
  CHECK_FALSE(without.parameters() == x);
}

TEST_CASE("a stream is ended after its longest and goes on, and its loss falls") {
  const Plan plan = planned({"small", {1, 2, 2}, {models::Linear{6}, models::Relu{}, models::Linear{2}}});
  Random random(4);
  const auto batches = batches_for(random, plan, 8, 1);
  Streamed streamed(plan, options_for({1, 2}), 8);
  std::vector<double> losses;
  for (std::uint64_t t = 0; t < StreamedNetwork::kLongest + 10; ++t) {
    while (streamed.network.must_land()) losses.push_back(*streamed.network.land());
    const auto loss =
        streamed.network.feed(streamed.arena, batches[0].inputs.data(), batches[0].labels.data(), 1);
    if (loss) losses.push_back(*loss);
  }
  while (const auto loss = streamed.network.land()) losses.push_back(*loss);
  REQUIRE(losses.size() == StreamedNetwork::kLongest + 10);
  CHECK(losses.back() < 0.5 * losses.front());
}

TEST_CASE("stages that share a tensor learn without a flush") {
  const Plan plan = plans_for_stages().back();
  Random random(5);
  const auto batches = batches_for(random, plan, 4, 1);
  Streamed streamed(plan, options_for({3}), 4);
  std::vector<models::Batch> again(200, batches[0]);
  const auto losses = streamed.run(again);
  CHECK(losses.back() < 0.9 * losses.front());
}

TEST_CASE("a stream that is abandoned stops its threads") {
  const Plan plan = zoo("lenet", {1, 14, 14});
  Random random(6);
  const auto batches = batches_for(random, plan, 2, 2);
  for (int i = 0; i < 20; ++i) {
    Streamed streamed(plan, options_for({3, 5, 6}), 2);
    for (const auto& batch : batches)
      static_cast<void>(streamed.network.feed(streamed.arena, batch.inputs.data(), batch.labels.data(), 1));
    CHECK(streamed.network.in_flight() == 2);
    StagedOptions options = options_for({3}, 1);
    options.replicas = {2, 2};
    Streamed replicated(plan, options, 2);
    for (const auto& batch : batches)
      static_cast<void>(
          replicated.network.feed(replicated.arena, batch.inputs.data(), batch.labels.data(), 1));
    CHECK(replicated.network.in_flight() == 2);
  }
}

}  // namespace starling::training
