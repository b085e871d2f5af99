// A network whose layers are divided among parts on threads beside the whole network on one thread: samples
// per second of loss and gradient on noise, their ratio, and the ratio of the processor time that they take.
//
//   slices_bench [--parts K] [--batch N] [--rounds N] [MODEL...]
//
// Without models: lenet; `alexnet`, like AlexNet (Krizhevsky et al., 2012) for 64x64 images, with its groups;
// `linear`, eight linear layers of 1,024 features; `wide`, four of 4,096. In each round both are timed; the
// ratio is the median of the rounds'.
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
#include "kernels/backends.h"
#include "kernels/buffer.h"
#include "models/network.h"
#include "training/pipeline/slices/sliced_network.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

struct Settings {
  int parts = 2, batch = 64, rounds = 5;
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

// Samples per second, and processor seconds of all threads for a sample, over at least half a second.
struct Rate {
  double samples, work;
};
template <class Train>
Rate rate_of(int batch, const Train& train) {
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
  const double samples = batch * batches;
  return {samples / seconds, static_cast<double>(std::clock() - work) / CLOCKS_PER_SEC / samples};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

int measure(const std::string& name, const Settings& settings) {
  const auto fail = [&](const Error& error) {
    std::fprintf(stderr, "slices_bench: %s: %s\n", name.c_str(), error.message.c_str());
    return 2;
  };
  const auto plan = plan_of(name);
  if (!plan) return fail(plan.error());
  auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(backend.error());
  const training::SlicedOptions options{static_cast<std::size_t>(settings.parts), 0};
  if (const Status fine = training::check_slices(*plan, settings.batch, options); !fine)
    return fail(fine.error());
  kernels::Buffer parameters(plan->layout.arena_size()), gradient(parameters.size());
  models::initialize(*plan, Random(1), parameters.values());
  const Samples batch = noise_for(*plan, settings.batch);
  models::Network whole(*plan, **backend, settings.batch, models::Purpose::train);
  training::SlicedNetwork sliced(*plan, **backend, settings.batch, options);
  std::vector<double> alone, together, ratios, works;
  for (int round = 0; round < settings.rounds; ++round) {
    const Rate of_whole = rate_of(settings.batch, [&] {
      whole.train(parameters.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
    });
    const Rate of_slices = rate_of(settings.batch, [&] {
      sliced.train(parameters.data(), batch.inputs.data(), batch.labels.data(), gradient.data());
    });
    alone.push_back(of_whole.samples);
    together.push_back(of_slices.samples);
    ratios.push_back(of_slices.samples / of_whole.samples);
    works.push_back(of_slices.work / of_whole.work);
  }
  std::printf("%s batch %d whole %.1f slices %.1f ratio %.3f work %.3f gathered %zu reduced %zu",
              name.c_str(), settings.batch, median(alone), median(together), median(ratios), median(works),
              sliced.traffic().gathered, sliced.traffic().reduced);
  for (std::size_t p = 0; p < sliced.parts(); ++p)
    std::printf(" bytes_of_%zu %zu", p, sliced.memory(p).total());
  std::printf(" bytes_of_whole %zu\n", whole.memory().total());
  std::fflush(stdout);
  return 0;
}

// Reads a flag; false if the flag or its value is invalid.
bool set(Settings& settings, std::string_view flag, const std::string& value) {
  const auto number = parse_number<int>(value);
  if (!number || *number < 1) return false;
  if (flag == "--parts") settings.parts = *number;
  if (flag == "--batch") settings.batch = *number;
  if (flag == "--rounds") settings.rounds = *number;
  return flag == "--parts" || flag == "--batch" || flag == "--rounds";
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  auto read = bench::read_arguments(
      "slices_bench", argc, argv,
      [&](std::string_view flag, const char* value) { return set(settings, flag, value); });
  if (!read) return 2;
  std::vector<std::string> names = std::move(*read);
  if (names.empty()) names = {"lenet", "alexnet", "linear", "wide"};
  for (const std::string& name : names)
    if (const int code = measure(name, settings); code != 0) return code;
  return 0;
}
