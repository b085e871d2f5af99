// Common parts of the training benchmarks: a model of the zoo on noise instead of images, on any back end,
// and one worker thread per network as in a peer.
#pragma once

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/arena.h"
#include "models/spec.h"
#include "training/learning/worker.h"

namespace starling::bench {

// Parses "f32", "bf16" or "tf32".
std::optional<kernels::Precision> parse_precision(std::string_view name);

struct Recipe {
  std::string model = "lenet";
  std::string backend = "cpu";
  kernels::Precision precision = kernels::Precision::f32;
  int batch = 0;  // 0: the model's default
};

// A replica and the data its workers need. Not movable: the workers refer to it.
class Replica {
 public:
  static Result<std::unique_ptr<Replica>> make(const Recipe& recipe);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  std::unique_ptr<training::Worker> make_worker(std::uint64_t seed) const;
  std::size_t network_bytes() const;  // per worker
  int batch() const { return batch_; }
  bool on_device() const { return !backend_->memory().on_host(); }
  models::Arena& arena() { return arena_; }
  const models::Plan& plan() const { return plan_; }

 private:
  Replica(models::Plan plan, std::unique_ptr<kernels::Backend> backend, int batch);

  models::Plan plan_;
  std::unique_ptr<kernels::Backend> backend_;
  int batch_;
  datasets::Dataset data_;
  std::shared_ptr<const kernels::Samples> kept_;
  models::Arena arena_;
};

// The workers of a replica. The constructor returns after the warm-up; then they wait.
class Crew {
 public:
  // `steps`: number of steps per worker, without warm-up; 0: run until stop().
  Crew(Replica& replica, int workers, long steps = 0);
  ~Crew() { stop(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start() { begin_.count_down(); }
  // Waits until all steps are done. REQUIRES: start() was called with `steps`.
  void finish();
  // Waits until the replica's device is idle. Can be called repeatedly.
  void stop();

  double samples() const { return static_cast<double>(steps_) * batch_; }

 private:
  void work(Replica& replica, std::uint64_t seed, long steps);

  int batch_;
  std::atomic<bool> stopped_{false};
  std::atomic<long> steps_{0};
  std::latch ready_, begin_{1};
  std::vector<std::thread> threads_;
};

}  // namespace starling::bench
