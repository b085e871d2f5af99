// Samples a second of training steps (forward, backward, SGD with momentum on one arena; random data) for the
// models named on the command line, or all:
//
//   train_bench [--seconds S] [--workers N] [--batch N] [--backend NAME] [MODEL...]
//
// Workers are threads with a network each, as in a peer. Ends with the memory of the networks and of the
// process. One line per model:
//   lenet samples_per_second 3456.7 per_cpu_second 3460.1 network_bytes 12345678
// The second figure counts only the time that this process ran, for a machine that has other work too.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "models/arena.h"
#include "models/network.h"

namespace {

using namespace starling;

struct Settings {
  double seconds = 2;
  int workers = 1;
  int batch = 0;  // 0: the model's usual one
  std::string backend = "cpu";
};

// What the model is usually fed.
struct Diet {
  models::Shape input;
  int batch;
};
Diet diet_of(const std::string& name) {
  const bool color = name.starts_with("resnet") || name.starts_with("vgg");
  return color ? Diet{{3, 32, 32}, 32} : Diet{{1, 28, 28}, 64};
}

// One thread's part: its network and its random batch.
class Worker {
 public:
  Worker(const models::Plan& plan, const kernels::Backend& backend, int batch, std::uint64_t seed)
      : network_(plan, backend, batch, models::Purpose::train),
        inputs_(static_cast<std::size_t>(batch) * static_cast<std::size_t>(plan.spec.input.size())),
        labels_(static_cast<std::size_t>(batch)),
        gradient_(plan.layout.arena_size()),
        velocity_(plan.layout.trained_size()) {
    Random random(seed);
    for (float& x : inputs_) x = static_cast<float>(random.uniform(-1, 1));
    for (std::int32_t& label : labels_) label = static_cast<std::int32_t>(random.below(10));
  }

  void step(models::Arena& arena) {
    network_.train(arena.data(), inputs_.data(), labels_.data(), gradient_.data());
    arena.sgd(std::span<const float>(gradient_).first(velocity_.size()), velocity_,
              {.learning_rate = 1e-6F, .momentum = 0.9F});
  }
  std::size_t bytes() const { return network_.memory().total(); }

 private:
  models::Network network_;
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
  std::vector<float> gradient_, velocity_;
};

int measure(const std::string& name, const Settings& settings) {
  const Diet diet = diet_of(name);
  const int batch = settings.batch > 0 ? settings.batch : diet.batch;
  auto plan = models::make_model(name, diet.input, 10);
  auto backend = kernels::make_backend(settings.backend);
  if (!plan || !backend) {
    std::fprintf(stderr, "train_bench: %s\n", (!plan ? plan.error() : backend.error()).message.c_str());
    return 2;
  }
  models::Arena arena(plan->layout.arena_size());
  std::vector<float> start(arena.size());
  models::initialize(*plan, Random(1), start);
  arena.write(0, start);

  using Clock = std::chrono::steady_clock;
  std::atomic<bool> stop{false};
  std::atomic<long> steps{0};
  std::atomic<std::size_t> bytes{0};
  std::latch ready(settings.workers + 1);
  std::vector<std::jthread> threads;
  for (int w = 0; w < settings.workers; ++w) {
    threads.emplace_back([&, w] {
      Worker worker(*plan, **backend, batch, static_cast<std::uint64_t>(w) + 2);
      bytes += worker.bytes();
      for (int i = 0; i < 3; ++i) worker.step(arena);
      ready.arrive_and_wait();
      while (!stop) {
        worker.step(arena);
        ++steps;
      }
    });
  }
  ready.arrive_and_wait();
  const auto begin = Clock::now();
  const std::clock_t cpu_begin = std::clock();
  std::this_thread::sleep_for(std::chrono::duration<double>(settings.seconds));
  stop = true;
  threads.clear();
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const double samples = static_cast<double>(steps) * batch;
  std::printf("%s samples_per_second %.1f per_cpu_second %.1f network_bytes %zu\n", name.c_str(),
              samples / elapsed, samples / cpu, bytes.load());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = flag.starts_with("--") && i + 1 < argc ? argv[++i] : nullptr;
    if (value == nullptr) {
      names.emplace_back(flag);
    } else if (flag == "--seconds") {
      settings.seconds = parse_number<double>(value).value_or(2);
    } else if (flag == "--workers") {
      settings.workers = parse_number<int>(value).value_or(1);
    } else if (flag == "--batch") {
      settings.batch = parse_number<int>(value).value_or(0);
    } else if (flag == "--backend") {
      settings.backend = value;
    } else {
      std::fprintf(stderr, "train_bench: there is no flag %s\n", argv[i - 1]);
      return 2;
    }
  }
  if (names.empty()) names = models::model_names();
  for (const std::string& name : names) {
    if (const int code = measure(name, settings); code != 0) return code;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("process rss_peak_bytes %ld\n", usage.ru_maxrss * 1024L);
  return 0;
}
