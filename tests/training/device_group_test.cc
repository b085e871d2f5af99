// The replicas of a peer on several devices: averages keep all changes by workers and partners, on back ends
// of the host and on GPUs (emulated ones if there are none).
#include "training/learning/device_group.h"
#include "kernels/by_name/backends.h"
#include "tests/training/vectors.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/seeds.h"

namespace starling::training {
namespace {

using kernels::Backend;
using models::Arena;
using Backends = std::vector<std::unique_ptr<Backend>>;

Backends host_backends(std::size_t count) {
  Backends all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(std::move(*kernels::make_backend("cpu")));
  return all;
}

// The same GPU several times: the machine may have only one, and NCCL's work then goes through the host.
Backends gpu_backends(std::size_t count) {
  Backends all;
  for (std::size_t i = 0; i < count; ++i)
    if (auto backend = kernels::gpu_backend()) all.push_back(std::move(backend));
  return all;
}

// All GPUs of the machine.
Backends different_gpus() {
  const kernels::CudaModule* const module = kernels::gpu_module();
  if (module == nullptr) return {};
  const auto devices = module->devices();
  REQUIRE(devices.ok());
  Backends all;
  for (const kernels::CudaDevice& device : *devices) {
    if (!device.problem.empty()) continue;
    auto backend = module->make_backend(device.number, kernels::Precision::f32);
    REQUIRE(backend.ok());
    all.push_back(std::move(*backend));
  }
  return all;
}

std::vector<const Backend*> pointers(const Backends& backends) {
  std::vector<const Backend*> all;
  for (const auto& backend : backends) all.push_back(backend.get());
  return all;
}

std::vector<float> settled_values(Arena& arena) {
  arena.wait();
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Rounds in which every device's workers and a partner make changes. Afterwards the peer and all replicas
// have their former values, plus the mean of the workers' changes, plus the partner's change.
void check_rounds(const Backends& backends, std::uint64_t seed) {
  Random random(seed);
  const std::size_t floats = 1 + random.below(200'000);
  const auto devices = static_cast<float>(backends.size());
  Arena peer(floats, *backends.front());
  std::vector<float> expected = draw(random, floats);
  peer.write(0, expected);
  DeviceGroup group(peer, pointers(backends));
  INFO(floats << " floats on " << backends.size() << " devices by " << group.way());
  group.adopt();
  for (std::size_t k = 0; k < group.size(); ++k) CHECK(settled_values(group.replica(k)) == expected);

  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> steps;
    std::vector<double> squares(floats);
    for (std::size_t k = 0; k < group.size(); ++k) {
      steps.push_back(draw(random, floats));
      group.replica(k).add(0, steps.back());
      group.replica(k).wait();
    }
    const std::vector<float> mixed = draw(random, floats);
    peer.add(0, mixed);
    peer.wait();
    double spread = 0;
    for (std::size_t i = 0; i < floats; ++i) {
      float mean = 0;
      for (const auto& step : steps) mean += step[i] / devices;
      for (const auto& step : steps) {
        // The partner's change also separates a replica from the mean.
        const auto off = static_cast<double>(step[i]) - static_cast<double>(mean + mixed[i]);
        spread += off * off / static_cast<double>(devices);
      }
      expected[i] += mean + mixed[i];
    }
    const auto seen = group.average();
    CHECK(seen.finite);
    CHECK(seen.distance == Approx(std::sqrt(spread)).epsilon(1e-3));
    CHECK(largest_difference(settled_values(peer), expected) < 1e-5);
    for (std::size_t k = 0; k < group.size(); ++k)
      CHECK(largest_difference(settled_values(group.replica(k)), expected) < 1e-5);
  }
}

}  // namespace

TEST_CASE("devices that average keep the mean of the workers' changes, and all of the partners' changes") {
  for (std::uint64_t seed = 1; seed <= seeds(10, 4); ++seed) check_rounds(host_backends(1 + seed % 4), seed);
}

TEST_CASE("GPUs that average through the host keep the workers' and the partners' changes", "[gpu]") {
  const Backends backends = gpu_backends(2);
  if (backends.empty()) return;
  for (std::uint64_t seed = 1; seed <= seeds(3); ++seed) check_rounds(backends, seed);
}

TEST_CASE("different GPUs that average keep the workers' and the partners' changes", "[gpu]") {
  const Backends backends = different_gpus();
  if (backends.empty()) return;
  if (backends.size() > 1 && kernels::gpu_module()->libraries().find("no NCCL") == std::string::npos) {
    Arena peer(1, *backends.front());
    CHECK(DeviceGroup(peer, pointers(backends)).way() == "NCCL");
  }
  for (std::uint64_t seed = 1; seed <= seeds(3); ++seed) check_rounds(backends, seed);
}

TEST_CASE("no update is lost while devices average") {
  const Backends backends = host_backends(3);
  constexpr std::size_t kFloats = 20'000;
  constexpr int kAdds = 300;
  Arena peer(kFloats, *backends.front());
  DeviceGroup group(peer, pointers(backends));
  group.adopt();
  // Multiples of 1/64: no order of additions rounds.
  const std::vector<float> step(kFloats, 0.75F), mixed(kFloats, 0.25F);
  std::vector<std::jthread> threads;
  std::atomic<int> busy{4};
  for (std::size_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      for (int i = 0; i < kAdds; ++i) (k < 3 ? group.replica(k) : peer).atomic_add(0, k < 3 ? step : mixed);
      --busy;
    });
  }
  int averages = 0;
  while (busy > 0) {
    group.average();
    ++averages;
  }
  threads.clear();
  group.average();
  INFO(averages << " averages meanwhile");
  // An average may lose an add that lands during it (models/arena.h): seldom, and never much.
  const std::vector<float> values = settled_values(peer);
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) / static_cast<double>(kFloats);
  CHECK(sum == Approx(kAdds * (0.75 + 0.25)).epsilon(0.01));
}

TEST_CASE("a device whose replica is not finite is detected by the mean of the replicas") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool on_gpu : {false, true}) {
      const Backends backends = on_gpu ? gpu_backends(2) : host_backends(2);
      if (backends.empty()) continue;
      Arena peer(1000, *backends.front());
      DeviceGroup group(peer, pointers(backends));
      group.adopt();
      CHECK(group.average().finite);
      group.replica(1).write(777, std::span(&bad, 1));
      CHECK_FALSE(group.average().finite);
      peer.write(0, std::vector<float>(1000, 1.0F));
      group.adopt();
      CHECK(group.average().finite);
      CHECK(settled_values(peer) == std::vector<float>(1000, 1.0F));
    }
  }
}

TEST_CASE("workers on every device learn that partners have mixed") {
  const Backends backends = host_backends(2);
  Arena peer(10, *backends.front());
  DeviceGroup group(peer, pointers(backends));
  group.adopt();
  group.average();
  CHECK(group.replica(1).mixes() == 0);
  peer.count_mix();
  group.average();
  group.average();
  CHECK(group.replica(0).mixes() == 1);
  CHECK(group.replica(1).mixes() == 1);
}

}  // namespace starling::training
