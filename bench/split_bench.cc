// A network that several threads divide, beside the whole network on one thread: samples per second of loss
// and gradient on noise, and their ratio.
//
//   split_bench [--split stages] [--stages K] [--micro-batches M] [--schedule 1f1b|gpipe]
//               [--recompute never|except-last|always] [--batch N] [--rounds N] [MODEL...]
//   split_bench --split slices [--parts K] [--batch N] [--rounds N] [MODEL...]
//
// stages: consecutive layers, cut by the planner; beside them also one thread with micro-batches, and the
// ratio is to the better of the two. slices: parts of each layer; also the ratio of the processor time that
// both take. Models are those of the zoo and `alexnet`, like AlexNet (Krizhevsky et al., 2012) for 64x64
// images, with its groups; `linear`, eight linear layers of 1,024 features; `wide`, four of 4,096. In each
// round all are timed; the ratio is the median of the rounds'.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "bench/arguments.h"
#include "kernels/buffer.h"
#include "kernels/by_name/backends.h"
#include "models/network.h"
#include "training/learning/slices/sliced_network.h"
#include "training/learning/stages/staged_network.h"
#include "training/planner/partition.h"
#include "training/planner/profiling/measured_profile.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

struct Settings {
  bool slices = false;
  int stages = 2, parts = 2, batch = 64, rounds = 5;
  training::StagedOptions staged{{}, training::PipelineSchedule::one_f_one_b, 8};
};

std::vector<models::Layer> linear_layers(int count, int features) {
  std::vector<models::Layer> layers;
  for (int k = 1; k < count; ++k) {
    layers.emplace_back(models::Linear{features});
    layers.emplace_back(models::Relu{});
  }
  layers.emplace_back(models::Linear{features});
  return layers;
}

std::vector<models::Layer> alexnet_layers() {
  using namespace models;
  return {Convolution{64, 5, 2, 2},
          Relu{},
          MaxPool{2},
          Convolution{192, 5, 1, 2, 2},
          Relu{},
          MaxPool{2},
          Convolution{384, 3, 1, 1},
          Relu{},
          Convolution{256, 3, 1, 1, 2},
          Relu{},
          Convolution{256, 3, 1, 1, 2},
          Relu{},
          MaxPool{2},
          Dropout{0.5},
          Linear{4096},
          Relu{},
          Dropout{0.5},
          Linear{4096},
          Relu{},
          Linear{1000}};
}

Result<models::Plan> plan_of(const std::string& name) {
  if (name == "linear") return models::make_plan({name, {1024, 1, 1}, linear_layers(8, 1024)});
  if (name == "wide") return models::make_plan({name, {4096, 1, 1}, linear_layers(4, 4096)});
  if (name == "alexnet") return models::make_plan({name, {3, 64, 64}, alexnet_layers()});
  if (name == "lenet") return models::make_model(name, {1, 28, 28}, 10);
  if (name.starts_with("gpt") || name.starts_with("llama"))
    return models::make_model(name, {1, 1, 1, 64}, 256);
  return models::make_model(name, {3, 32, 32}, 10);
}

struct Samples {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};
Samples noise_for(const models::Plan& plan, int batch) {
  Random random(1);
  const auto number = [&] { return random.below(static_cast<std::uint64_t>(plan.classes)); };
  Samples it;
  it.inputs.resize(static_cast<std::size_t>(batch * plan.spec.input.size()));
  for (float& x : it.inputs)
    x = static_cast<float>(plan.spec.input.tokens > 0 ? static_cast<double>(number())
                                                      : random.uniform(-1, 1));
  for (int i = 0; i < batch * plan.labels(); ++i) it.labels.push_back(static_cast<std::int32_t>(number()));
  return it;
}

// What all networks of a comparison compute.
struct Task {
  const models::Plan& plan;
  const kernels::Backend& backend;
  int batch;
  Samples samples = noise_for(plan, batch);
  kernels::Buffer parameters{plan.layout.arena_size()}, gradient{parameters.size()};
};

// Samples per second, and processor seconds of all threads for a sample.
struct Rate {
  double samples, work;
};

// Over at least half a second.
template <class Network>
Rate rate_of(Network& network, Task& task) {
  const auto train = [&] {
    network.train(task.parameters.data(), task.samples.inputs.data(), task.samples.labels.data(),
                  task.gradient.data());
  };
  train();
  const auto begin = Clock::now();
  const std::clock_t work = std::clock();
  double seconds = 0;
  int batches = 0;
  while (seconds < 0.5) {
    train();
    ++batches;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const double samples = task.batch * batches;
  return {samples / seconds, static_cast<double>(std::clock() - work) / CLOCKS_PER_SEC / samples};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

template <class Network>
void print_bytes(const Network& divided, const models::Network& whole) {
  for (std::size_t k = 0; k < divided.parts(); ++k)
    std::printf(" bytes_of_%zu %zu", k, divided.memory(k).total());
  std::printf(" bytes_of_whole %zu", whole.memory().total());
}

// The planner's cuts, from times measured here, with free transfers: the stages share memory.
Result<std::vector<int>> planned_cuts(const Task& task, const Settings& settings) {
  const int micro = settings.batch / static_cast<int>(settings.staged.micro_batches);
  const auto measured = training::measure_profile(task.plan, task.backend, std::max(1, micro));
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

Status measure_stages(Task& task, models::Network& whole, Settings settings) {
  auto cuts = planned_cuts(task, settings);
  if (!cuts) return cuts.error();
  training::StagedOptions one_stage = settings.staged;
  settings.staged.cuts = *cuts;
  if (Status fine = training::check_stages(task.plan, task.batch, settings.staged); !fine) return fine;
  training::StagedNetwork staged(task.plan, task.backend, task.batch, settings.staged);
  training::StagedNetwork in_pieces(task.plan, task.backend, task.batch, one_stage);
  std::vector<double> alone, pieces, together, ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    alone.push_back(rate_of(whole, task).samples);
    pieces.push_back(rate_of(in_pieces, task).samples);
    together.push_back(rate_of(staged, task).samples);
    ratios.push_back(together.back() / std::max(alone.back(), pieces.back()));
  }
  std::printf("%s whole %.1f micro_batches %.1f stages %.1f ratio %.3f", task.plan.spec.name.c_str(),
              median(alone), median(pieces), median(together), median(ratios));
  print_bytes(staged, whole);
  std::printf(" cuts");
  for (const int cut : *cuts)
    std::printf(" %s", task.plan.layers[static_cast<std::size_t>(cut)].name.c_str());
  return Done{};
}

Status measure_slices(Task& task, models::Network& whole, const Settings& settings) {
  const training::SlicedOptions options{static_cast<std::size_t>(settings.parts), 0};
  if (Status fine = training::check_slices(task.plan, task.batch, options); !fine) return fine;
  training::SlicedNetwork sliced(task.plan, task.backend, task.batch, options);
  std::vector<double> alone, together, ratios, works;
  for (int round = 0; round < settings.rounds; ++round) {
    const Rate of_whole = rate_of(whole, task), of_slices = rate_of(sliced, task);
    alone.push_back(of_whole.samples);
    together.push_back(of_slices.samples);
    ratios.push_back(of_slices.samples / of_whole.samples);
    works.push_back(of_slices.work / of_whole.work);
  }
  std::printf("%s batch %d whole %.1f slices %.1f ratio %.3f work %.3f gathered %zu reduced %zu",
              task.plan.spec.name.c_str(), task.batch, median(alone), median(together), median(ratios),
              median(works), sliced.traffic().gathered, sliced.traffic().reduced);
  print_bytes(sliced, whole);
  return Done{};
}

Status measure(const std::string& name, const Settings& settings) {
  const auto plan = plan_of(name);
  if (!plan) return plan.error();
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return backend.error();
  Task task{*plan, **backend, settings.batch};
  models::initialize(*plan, Random(1), task.parameters.values());
  models::Network whole(*plan, **backend, settings.batch, models::NetworkUse::train);
  Status done =
      settings.slices ? measure_slices(task, whole, settings) : measure_stages(task, whole, settings);
  if (!done) return done;
  std::printf("\n");
  std::fflush(stdout);
  return done;
}

// Reads a flag; false if the flag or its value is invalid.
bool set(Settings& settings, std::string_view flag, const std::string& value) {
  const auto number = [&](auto& to) {
    const auto read = parse_number<int>(value);
    if (read && *read > 0) to = static_cast<std::remove_reference_t<decltype(to)>>(*read);
    return read && *read > 0;
  };
  const auto either = [&](auto& to, std::string_view first, auto is_first, std::string_view other,
                          auto is_other) {
    to = value == first ? is_first : is_other;
    return value == first || value == other;
  };
  if (flag == "--split") return either(settings.slices, "slices", true, "stages", false);
  if (flag == "--stages") return number(settings.stages);
  if (flag == "--parts") return number(settings.parts);
  if (flag == "--batch") return number(settings.batch);
  if (flag == "--rounds") return number(settings.rounds);
  if (flag == "--micro-batches") return number(settings.staged.micro_batches);
  if (flag == "--schedule")
    return either(settings.staged.schedule, "gpipe", training::PipelineSchedule::gpipe, "1f1b",
                  training::PipelineSchedule::one_f_one_b);
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
  auto read = bench::read_arguments("split_bench", argc, argv, [&](std::string_view flag, const char* value) {
    return set(settings, flag, value);
  });
  if (!read) return 2;
  std::vector<std::string> names = std::move(*read);
  if (names.empty() && settings.slices) names = {"lenet", "alexnet", "linear", "wide"};
  if (names.empty()) names = {"resnet18", "linear"};
  for (const std::string& name : names) {
    if (const Status done = measure(name, settings); !done) {
      std::fprintf(stderr, "split_bench: %s: %s\n", name.c_str(), done.error().message.c_str());
      return 2;
    }
  }
  return 0;
}
