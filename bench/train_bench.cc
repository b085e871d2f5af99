// Samples per second of training steps (batch, forward, backward, SGD with momentum on one arena) on noise,
// for the given models or all:
//
//   train_bench [--seconds S] [--rounds N] [--steps N] [--workers N] [--batch N]
//               [--backend cpu|reference|cuda:N] [--precision f32|bf16|tf32] [MODEL...]
//
// Workers are threads with one network each and do the same work as a peer's (training::Worker): on a device,
// a recorded step with resident samples, timed until the device is idle. --steps: a fixed number of steps per
// worker without warm-up, for profiling. Ends with the memory of the networks and of the process. One line
// per model, the median of the rounds:
//   lenet samples_per_second 3456.7 per_cpu_second 3460.1 network_bytes 12345678
// The second figure is per CPU second of this process, for machines with other load.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bench/arguments.h"
#include "bench/crew.h"

namespace {

using namespace starling;

struct Settings {
  bench::Recipe recipe;
  double seconds = 2;
  int rounds = 1;
  long steps = 0;  // 0: as many as fit the time
  int workers = 1;
};

struct Rate {
  double per_second = 0, per_cpu_second = 0;
};

Rate measure_once(bench::Replica& replica, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  bench::Crew crew(replica, settings.workers, settings.steps);
  const auto begin = Clock::now();
  const std::clock_t cpu_begin = std::clock();
  crew.start();
  if (settings.steps > 0) {
    crew.finish();
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(settings.seconds));
    crew.stop();
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  return {crew.samples() / elapsed, crew.samples() / cpu};
}

int measure(const Settings& settings) {
  auto made = bench::Replica::make(settings.recipe);
  if (!made) {
    std::fprintf(stderr, "train_bench: %s\n", made.error().message.c_str());
    return 2;
  }
  bench::Replica& replica = **made;
  std::vector<Rate> rates;
  for (int i = 0; i < settings.rounds; ++i) rates.push_back(measure_once(replica, settings));
  std::ranges::sort(rates, {}, &Rate::per_second);
  const Rate& rate = rates[(rates.size() - 1) / 2];
  const std::size_t network_bytes = replica.network_bytes() * static_cast<std::size_t>(settings.workers);
  std::printf("%s samples_per_second %.2f per_cpu_second %.2f network_bytes %zu\n",
              settings.recipe.model.c_str(), rate.per_second, rate.per_cpu_second, network_bytes);
  std::fflush(stdout);
  return 0;
}

// Reads a flag; false if the flag or its value is invalid.
bool set(Settings& settings, std::string_view flag, std::string_view value) {
  const auto number = [&](auto& to) {
    const auto read = parse_number<std::remove_reference_t<decltype(to)>>(std::string(value));
    if (read && *read >= 0) to = *read;
    return read && *read >= 0;
  };
  if (flag == "--seconds") return number(settings.seconds);
  if (flag == "--rounds") return number(settings.rounds) && settings.rounds > 0;
  if (flag == "--steps") return number(settings.steps);
  if (flag == "--workers") return number(settings.workers) && settings.workers > 0;
  if (flag == "--batch") return number(settings.recipe.batch);
  if (flag == "--backend") {
    settings.recipe.backend = value;
    return true;
  }
  const auto precision = bench::parse_precision(value);
  if (flag != "--precision" || !precision) return false;
  settings.recipe.precision = *precision;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  auto read = bench::read_arguments("train_bench", argc, argv, [&](std::string_view flag, const char* value) {
    return set(settings, flag, value);
  });
  if (!read) return 2;
  std::vector<std::string> names = std::move(*read);
  if (names.empty()) names = models::model_names();
  try {
    for (const std::string& name : names) {
      settings.recipe.model = name;
      if (const int code = measure(settings); code != 0) return code;
    }
  } catch (const kernels::DeviceError& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return 1;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("process rss_peak_bytes %ld\n", usage.ru_maxrss * 1024L);
  return 0;
}
