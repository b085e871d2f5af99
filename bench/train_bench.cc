// Samples a second of one worker's training steps (forward, backward, SGD with momentum; batch 64, float32,
// random data), for the models named on the command line, or all. With --seconds S each is measured for S
// seconds. Ends with the memory of the networks and of the process. One line per model:
//   lenet samples_per_second 3456.7 per_cpu_second 3460.1 network_bytes 12345678
// The second figure counts only the time that this process ran, for a machine that has other work too.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/text.h"
#include "models/arena.h"
#include "models/network.h"

namespace {

using namespace starling;

constexpr int kBatch = 64;

int measure(const std::string& name, const std::string& backend_name, double seconds) {
  auto plan = models::make_model(name, {1, 28, 28}, 10);
  auto backend = kernels::make_backend(backend_name);
  if (!plan || !backend) {
    std::fprintf(stderr, "train_bench: %s\n", (!plan ? plan.error() : backend.error()).message.c_str());
    return 2;
  }
  models::Network network(*plan, **backend, kBatch, models::Purpose::train);
  const std::size_t size = plan->layout.arena_size();
  models::Arena arena(size);
  std::vector<float> start(size), gradient(size), velocity(size);
  models::initialize(*plan, Random(1), start);
  arena.write(0, start);
  Random random(2);
  std::vector<float> inputs(kBatch * 784);
  std::vector<std::int32_t> labels(kBatch);
  for (float& x : inputs) x = static_cast<float>(random.uniform(-1, 1));
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random.below(10));
  const auto step = [&] {
    network.train(arena.data(), inputs.data(), labels.data(), gradient.data());
    arena.sgd(gradient, velocity, {.learning_rate = 0.01F, .momentum = 0.9F});
  };

  for (int i = 0; i < 5; ++i) step();
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::clock_t cpu_begin = std::clock();
  double elapsed = 0;
  long steps = 0;
  for (; elapsed < seconds; ++steps) {
    step();
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const double samples = static_cast<double>(steps) * kBatch;
  std::printf("%s samples_per_second %.1f per_cpu_second %.1f network_bytes %zu\n", name.c_str(),
              samples / elapsed, samples / cpu, network.memory().total());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2;
  std::string backend = "cpu";
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = parse_number<double>(argv[++i]).value_or(2);
    } else if (std::strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
      backend = argv[++i];
    } else {
      names.emplace_back(argv[i]);
    }
  }
  if (names.empty()) names = models::model_names();
  for (const std::string& name : names) {
    if (const int code = measure(name, backend, seconds); code != 0) return code;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("process rss_peak_bytes %ld\n", usage.ru_maxrss * 1024L);
  return 0;
}
