// What benchmarks of training have in common: a model of the zoo on noise instead of images, wherever a back
// end keeps them, and workers of that model, a thread each, as in a peer.
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
#include "training/replica/worker.h"

namespace starling::bench {

// Of "f32", "bf16" or "tf32".
std::optional<kernels::Precision> parse_precision(std::string_view name);

struct Recipe {
  std::string model = "lenet";
  std::string backend = "cpu";
  kernels::Precision precision = kernels::Precision::f32;
  int batch = 0;  // 0: the model's usual one
};

// A replica, and all that its workers need. Stays where it is: they refer to it.
class Replica {
 public:
  static Result<std::unique_ptr<Replica>> make(const Recipe& recipe);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  std::unique_ptr<training::Worker> make_worker(std::uint64_t seed) const;
  std::size_t network_bytes() const;  // of one worker
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

// Workers of a replica. Warmed up when the constructor returns; then they wait.
class Crew {
 public:
  // `steps`: so many of each worker, and no warming up; 0: until stop().
  Crew(Replica& replica, int workers, long steps = 0);
  ~Crew() { stop(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start() { begin_.count_down(); }
  // REQUIRES: it was started, and with `steps`. Until they are made.
  void finish();
  // Returns when the replica's device has done all that was asked of it. Any number of times.
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
