// Measures a device's memory bandwidth: passes over a replica, and exchanges through pinned memory.
//
//   cuda_bench [--backend cuda:N] [--seconds S] [--megabytes N] [--model NAME] [--batch N]
//              [--precision f32|bf16|tf32]
//
// First the device's own copy (bytes read plus bytes written) and the passes of an optimizer and an exchange
// over an arena of the given size. Then an exchange's operations on a model's arena, one chunk at a time on
// one thread: read(), the same with the payloads bf16 and int8 (packed by the device), mix(), and read() and
// mix() alternating; for the host's arena and the device's, alone and while a worker trains on it, with the
// worker's slowdown. To mix, the host sends the difference (see kernels/cuda/parameters.cc) and the device
// adds it: the pass `add`. Prints one line per figure.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "base/random.h"
#include "base/text.h"
#include "bench/crew.h"
#include "kernels/buffer.h"
#include "kernels/by_name/backends.h"
#include "training/mixing/payload.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

struct Settings {
  bench::Recipe recipe{.model = "resnet18", .backend = "cuda:0", .batch = 256};
  double seconds = 1;
  std::size_t megabytes = 1000;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<float> noise(std::size_t n) {
  Random random(7);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

// ---- device passes ----

// A block of device memory filled with noise: zeros can be faster than real data.
kernels::Buffer noise_on(const kernels::Backend& backend, kernels::Queue& queue, std::size_t floats,
                         const std::vector<float>& some) {
  kernels::Buffer buffer(floats, backend.memory());
  for (std::size_t at = 0; at < floats; at += some.size())
    queue.upload(some.data(), buffer.data() + at, std::min(some.size(), floats - at) * sizeof(float));
  queue.wait();
  return buffer;
}

// Bytes per second of an operation that moves `bytes`; the median over rounds of several passes.
double bandwidth(kernels::Queue& queue, double bytes, double seconds, const std::function<void()>& pass) {
  pass();
  queue.wait();
  const auto first = Clock::now();
  pass();
  queue.wait();
  constexpr int kRounds = 5;
  const int passes = std::max(1, static_cast<int>(seconds / kRounds / std::max(1e-6, seconds_since(first))));
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < passes; ++i) pass();
    queue.wait();
    rates.push_back(bytes * passes / seconds_since(begin));
  }
  std::ranges::sort(rates);
  return rates[kRounds / 2];
}

void measure_passes(const kernels::Backend& backend, const Settings& settings) {
  const std::size_t floats = settings.megabytes * 1'000'000 / sizeof(float);
  const auto queue = backend.make_queue();
  const auto parameters = backend.make_parameters(floats);
  const std::vector<float> some = noise(1 << 20);
  for (std::size_t at = 0; at < floats; at += some.size())
    parameters->write(at, std::span(some).first(std::min(some.size(), floats - at)));
  kernels::Buffer gradient = noise_on(backend, *queue, floats, some);
  kernels::Buffer first = noise_on(backend, *queue, floats, some);
  // Averages of squares must not be negative.
  kernels::Buffer second(floats, backend.memory());
  const std::span<const float> g(gradient.data(), floats);
  const std::span<float> v(first.data(), floats), s(second.data(), floats);

  const kernels::SgdStep sgd{.learning_rate = 1e-6F, .momentum = 0.9F, .weight_decay = 1e-4F};
  kernels::Staged<kernels::Clip> clip(backend.memory());
  const kernels::AdamWStep adamw{.learning_rate = 1e-6F, .weight_decay = 1e-4F};
  std::uint64_t t = 0;
  struct Pass {
    const char* name;
    int arrays;  // number of arrays read or written
    std::function<void()> run;
  };
  const std::vector<Pass> passes = {
      {"copy", 2, [&] { parameters->copy(*queue, 0, s); }},
      {"add", 3, [&] { parameters->add(*queue, 0, g); }},
      {"sgd", 5, [&] { parameters->sgd(*queue, g, v, sgd); }},
      {"sgd_along", 4, [&] { parameters->sgd_along(*queue, g, v, sgd); }},
      {"follow", 5, [&] { parameters->follow(*queue, v, s, 0.9F, 0.1F); }},
      {"clip", 1, [&] { parameters->clip(*queue, g, 1, clip.get()); }},
      {"adamw", 7, [&] { parameters->adamw(*queue, g, v, s, adamw, ++t); }},
  };
  double copy = 0;
  for (const Pass& pass : passes) {
    if (pass.name == std::string_view("adamw")) queue->clear(second.data(), second.bytes());
    const double rate =
        bandwidth(*queue, static_cast<double>(pass.arrays) * static_cast<double>(gradient.bytes()),
                  settings.seconds, pass.run);
    if (copy == 0) copy = rate;
    std::printf("pass %s megabytes %zu gb_per_second %.1f percent_of_copy %.1f\n", pass.name,
                settings.megabytes, 1e-9 * rate, 100 * rate / copy);
    std::fflush(stdout);
  }
}

// ---- exchanges ----

constexpr std::size_t kChunks[] = {32 * 1024, 64 * 1024};  // floats: 128 and 256 KiB

enum class Work { read, read_bf16, read_int8, mix, both };
constexpr std::pair<Work, const char*> kWorks[] = {{Work::read, "read"},
                                                   {Work::read_bf16, "read_bf16"},
                                                   {Work::read_int8, "read_int8"},
                                                   {Work::mix, "mix"},
                                                   {Work::both, "read_and_mix"}};

// Packs floats for the wire, on the device or, from `scratch`, on the host.
void read_encoded(const models::Arena& arena, std::size_t at, Payload payload, std::span<float> scratch,
                  MutableBytes room) {
  const auto packing = payload == Payload::bf16 ? kernels::Packing::bf16 : kernels::Packing::int8;
  const MutableBytes bytes = room.first(kernels::packed_bytes(packing, scratch.size()));
  if (arena.read_packed(at, scratch.size(), packing, at, bytes)) return;
  arena.read(at, scratch);
  training::encode(payload, scratch, at, bytes);
}

// Bytes of parameters per second that `work` processes, chunk by chunk.
double goodput(models::Arena& arena, Work work, std::size_t chunk, double seconds) {
  // A copy of the replica: mixing with it does not change the values.
  std::vector<float> theirs(arena.size());
  arena.read(0, theirs);
  std::vector<float> own(theirs);
  AlignedBytes room(sizeof(float) * chunk);
  const auto begin = Clock::now();
  double bytes = 0, elapsed = 0;
  do {
    for (std::size_t at = 0; at < arena.size(); at += chunk) {
      const std::size_t n = std::min(chunk, arena.size() - at);
      const std::span<float> mine = std::span(own).subspan(at, n);
      if (work == Work::read_bf16) read_encoded(arena, at, Payload::bf16, mine, room.bytes());
      if (work == Work::read_int8) read_encoded(arena, at, Payload::int8, mine, room.bytes());
      if (work == Work::read || work == Work::both) arena.read(at, mine);
      if (work == Work::mix || work == Work::both)
        arena.mix(at, std::span(theirs).subspan(at, n), mine, 0.5F);
    }
    arena.wait();
    bytes += static_cast<double>(arena.size() * sizeof(float));
    elapsed = seconds_since(begin);
  } while (elapsed < seconds);
  return bytes / elapsed;
}

void print_goodput(const char* place, const char* work, std::size_t chunk, double rate) {
  std::printf("exchange %s %s chunk_kib %zu gb_per_second %.2f", place, work, chunk * sizeof(float) / 1024,
              1e-9 * rate);
}

void measure_arena(models::Arena& arena, const char* place, const Settings& settings) {
  for (const std::size_t chunk : kChunks) {
    for (const auto& [work, name] : kWorks) {
      print_goodput(place, name, chunk, goodput(arena, work, chunk, settings.seconds));
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

// Samples per second of one worker while `beside` runs.
double training_rate(bench::Replica& replica, const std::function<void()>& beside) {
  bench::Crew crew(replica, 1);
  const auto begin = Clock::now();
  crew.start();
  beside();
  crew.stop();
  return crew.samples() / seconds_since(begin);
}

void measure_beside_training(bench::Replica& replica, const Settings& settings) {
  const double alone = training_rate(
      replica, [&] { std::this_thread::sleep_for(std::chrono::duration<double>(settings.seconds)); });
  std::printf("training alone samples_per_second %.1f\n", alone);
  for (const std::size_t chunk : kChunks) {
    for (const auto& [work, name] : kWorks) {
      double rate = 0;
      const double trained = training_rate(
          replica, [&, kind = work] { rate = goodput(replica.arena(), kind, chunk, settings.seconds); });
      print_goodput("beside_training", name, chunk, rate);
      std::printf(" samples_per_second %.1f percent_of_alone %.1f\n", trained, 100 * trained / alone);
      std::fflush(stdout);
    }
  }
}

int measure(const Settings& settings) {
  {
    // Free its memory before the next part starts.
    const auto backend = kernels::make_backend(settings.recipe.backend);
    if (!backend) {
      std::fprintf(stderr, "cuda_bench: %s\n", backend.error().message.c_str());
      return 2;
    }
    if ((*backend)->memory().on_host()) {
      std::fprintf(stderr, "cuda_bench: %s is not a device\n", settings.recipe.backend.c_str());
      return 2;
    }
    measure_passes(**backend, settings);
  }
  const auto replica = bench::Replica::make(settings.recipe);
  if (!replica) {
    std::fprintf(stderr, "cuda_bench: %s\n", replica.error().message.c_str());
    return 2;
  }
  models::Arena on_host((*replica)->arena().size());
  on_host.write(0, noise(on_host.size()));
  measure_arena(on_host, "host", settings);
  measure_arena((*replica)->arena(), "device", settings);
  measure_beside_training(**replica, settings);
  return 0;
}

bool set(Settings& settings, std::string_view flag, std::string_view value) {
  if (flag == "--backend") settings.recipe.backend = value;
  if (flag == "--model") settings.recipe.model = value;
  if (flag == "--backend" || flag == "--model") return true;
  if (flag == "--precision") {
    const auto precision = bench::parse_precision(value);
    settings.recipe.precision = precision.value_or(kernels::Precision::f32);
    return precision.has_value();
  }
  const auto number = parse_number<double>(value);
  if (!number || *number <= 0) return false;
  if (flag == "--seconds") settings.seconds = *number;
  if (flag == "--megabytes") settings.megabytes = static_cast<std::size_t>(*number);
  if (flag == "--batch") settings.recipe.batch = static_cast<int>(*number);
  return flag == "--seconds" || flag == "--megabytes" || flag == "--batch";
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || !set(settings, argv[i], argv[i + 1])) {
      std::fprintf(stderr, "cuda_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  try {
    return measure(settings);
  } catch (const kernels::DeviceError& error) {
    std::fprintf(stderr, "cuda_bench: %s\n", error.what());
    return 1;
  }
}
