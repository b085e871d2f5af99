// A network in stages on threads beside the whole network on one thread, with the batch as a whole and in
// micro-batches: samples per second of loss and gradient on noise, and the ratio of the stages to the better
// of the two.
//
//   stages_bench [--stages K] [--micro-batches M] [--batch N] [--rounds N] [--schedule 1f1b|gpipe]
//                [--recompute never|except-last|always] [MODEL...]
//
// Without models: resnet18 and `linear`, a network of eight linear layers of 1,024 features. Cuts are
// those of the planner. In each round all are timed; the ratio is the median of the rounds'.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "bench/arguments.h"
#include "kernels/backends.h"
#include "kernels/buffer.h"
#include "models/network.h"
#include "training/pipeline/partition.h"
#include "training/pipeline/profiling/measured_profile.h"
#include "training/pipeline/stages/staged_network.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

struct Settings {
  int stages = 2, batch = 64, rounds = 5;
  training::StagedOptions staged{{}, training::PipelineSchedule::one_f_one_b, 8};
};

Result<models::Plan> plan_of(const std::string& name) {
  if (name != "linear") return models::make_model(name, {3, 32, 32}, 10);
  models::Spec spec{"linear", {1024, 1, 1}, {}};
  for (int k = 0; k < 7; ++k) {
    spec.layers.emplace_back(models::Linear{1024});
    spec.layers.emplace_back(models::Relu{});
  }
  spec.layers.emplace_back(models::Linear{1024});
  return models::make_plan(std::move(spec));
}

// The planner's cuts, from times measured here, with free transfers: the stages share memory.
Result<std::vector<int>> planned_cuts(const models::Plan& plan, const kernels::Backend& on,
                                      const Settings& settings) {
  const int micro = settings.batch / static_cast<int>(settings.staged.micro_batches);
  const auto measured = training::measure_profile(plan, on, std::max(1, micro));
  training::PlanRequest request;
  request.levels = {{.count = settings.stages, .bandwidth = 1e12}};
  request.replicas.assign(static_cast<std::size_t>(settings.stages), 1);
  const auto planned = training::plan_pipeline(measured.profile, request);
  if (!planned) return planned.error();
  std::vector<int> cuts;
  for (std::size_t s = 1; s < planned->stages.size(); ++s)
    cuts.push_back(static_cast<int>(planned->stages[s].layers.front()));
  return cuts;
}

struct Samples {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};
Samples noise_for(const models::Plan& plan, int batch) {
  Random random(1);
  Samples it;
  it.inputs.resize(static_cast<std::size_t>(batch * plan.spec.input.size()));
  for (float& x : it.inputs) x = static_cast<float>(random.uniform(-1, 1));
  for (int i = 0; i < batch; ++i)
    it.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(plan.classes))));
  return it;
}

// Samples per second over at least half a second.
template <class Train>
double rate_of(int batch, const Train& train) {
  train();
  const auto begin = Clock::now();
  double seconds = 0;
  int batches = 0;
  while (seconds < 0.5) {
    train();
    ++batches;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return batch * batches / seconds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

int measure(const std::string& name, Settings settings) {
  const auto fail = [&](const Error& error) {
    std::fprintf(stderr, "stages_bench: %s: %s\n", name.c_str(), error.message.c_str());
    return 2;
  };
  const auto plan = plan_of(name);
  if (!plan) return fail(plan.error());
  auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(backend.error());
  auto cuts = planned_cuts(*plan, **backend, settings);
  if (!cuts) return fail(cuts.error());
  settings.staged.cuts = *cuts;
  if (const Status fine = training::check_stages(*plan, settings.batch, settings.staged); !fine)
    return fail(fine.error());
  kernels::Buffer parameters(plan->layout.arena_size()), gradient(parameters.size());
  models::initialize(*plan, Random(1), parameters.values());
  const Samples batch = noise_for(*plan, settings.batch);
  models::Network whole(*plan, **backend, settings.batch, models::Purpose::train);
  training::StagedNetwork staged(*plan, **backend, settings.batch, settings.staged);
  training::StagedOptions one_stage = settings.staged;
  one_stage.cuts.clear();
  training::StagedNetwork in_pieces(*plan, **backend, settings.batch, one_stage);
  std::vector<double> alone, pieces, together, ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    alone.push_back(rate_of(settings.batch, [&] {
      whole.train(parameters.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
    }));
    pieces.push_back(rate_of(settings.batch, [&] {
      in_pieces.train(parameters.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
    }));
    together.push_back(rate_of(settings.batch, [&] {
      staged.train(parameters.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
    }));
    ratios.push_back(together.back() / std::max(alone.back(), pieces.back()));
  }
  std::printf("%s whole %.1f micro_batches %.1f stages %.1f ratio %.3f", name.c_str(), median(alone),
              median(pieces), median(together), median(ratios));
  for (std::size_t s = 0; s < staged.parts(); ++s)
    std::printf(" bytes_of_%zu %zu", s, staged.memory(s).total());
  std::printf(" bytes_of_whole %zu cuts", whole.memory().total());
  for (const int cut : settings.staged.cuts)
    std::printf(" %s", plan->layers[static_cast<std::size_t>(cut)].name.c_str());
  std::printf("\n");
  std::fflush(stdout);
  return 0;
}

// Reads a flag; false if the flag or its value is invalid.
bool set(Settings& settings, std::string_view flag, const std::string& value) {
  const auto number = [&](auto& to) {
    const auto read = parse_number<int>(value);
    if (read && *read > 0) to = static_cast<std::remove_reference_t<decltype(to)>>(*read);
    return read && *read > 0;
  };
  if (flag == "--stages") return number(settings.stages);
  if (flag == "--batch") return number(settings.batch);
  if (flag == "--rounds") return number(settings.rounds);
  if (flag == "--micro-batches") return number(settings.staged.micro_batches);
  if (flag == "--schedule") {
    settings.staged.schedule =
        value == "gpipe" ? training::PipelineSchedule::gpipe : training::PipelineSchedule::one_f_one_b;
    return value == "gpipe" || value == "1f1b";
  }
  const auto found =
      std::ranges::find(training::kRecomputations, value, &training::RecomputationTraits::name);
  if (flag != "--recompute" || found == training::kRecomputations.end()) return false;
  settings.staged.recomputation =
      static_cast<training::Recomputation>(found - training::kRecomputations.begin());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  auto read = bench::read_arguments(
      "stages_bench", argc, argv,
      [&](std::string_view flag, const char* value) { return set(settings, flag, value); });
  if (!read) return 2;
  std::vector<std::string> names = std::move(*read);
  if (names.empty()) names = {"resnet18", "linear"};
  for (const std::string& name : names)
    if (const int code = measure(name, settings); code != 0) return code;
  return 0;
}
