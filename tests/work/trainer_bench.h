// For the tests of the trainer: a small problem, its workers, and a count of the steps that were reported.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/glyphs.h"
#include "kernels/by_name/backends.h"
#include "node/work/hogwild.h"
#include "tests/catch.h"
#include "tests/waiting.h"
#include "training/learning/recipe.h"

namespace starling::node::testing {

inline constexpr Duration kHour = std::chrono::hours(1);

struct TrainerBench {
  explicit TrainerBench(std::uint32_t workers = 1, std::unique_ptr<kernels::Backend> on = nullptr) {
    experiment.model.name = "softmax";
    experiment.training.batch_size = 16;
    experiment.training.workers = workers;
    auto made_plan = training::make_plan(experiment, data.train);
    REQUIRE(made_plan.ok());
    plan = std::make_unique<models::Plan>(std::move(*made_plan));
    backend = on ? std::move(on) : std::move(*kernels::make_backend("cpu"));
    arena = std::make_unique<models::Arena>(plan->layout.arena_size(), *backend);
    arena->write(0, training::first_parameters(*plan, 1));
  }

  // With more than one device: a group of this many, each using the back end.
  void start(TrainerOptions options, std::uint32_t devices = 1) {
    std::vector<std::unique_ptr<training::Worker>> all;
    for (std::uint32_t device = 0; device < devices; ++device) {
      auto workers = training::make_workers(experiment, *plan, *backend, data.train, 0, 0, device);
      REQUIRE(workers.ok());
      for (auto& worker : *workers) all.push_back(std::move(worker));
    }
    if (devices > 1) {
      const std::vector<const kernels::Backend*> backends(devices, backend.get());
      group = std::make_unique<training::DeviceGroup>(*arena, backends);
    }
    const auto stepped = [this] {
      const std::lock_guard lock(mutex);
      ++reported;
      changed.notify_all();
    };
    trainer =
        std::make_unique<HogwildTrainer>(std::move(all), *arena, std::move(options), stepped, group.get());
    if (restored != nullptr) lost = trainer->restore(*restored);
    trainer->allow_samples(allowed);
    trainer->start();
  }
  void pause_and_discard() {
    trainer->pause(PausedBy::core);
    trainer->discard_steps();
  }
  void renew_and_resume() {
    trainer->renew();
    trainer->resume(PausedBy::core);
  }
  // Waits for `steps` reports.
  bool await(std::uint64_t steps) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kHang, [&] { return reported >= steps; });
  }
  // Waits until this many steps have begun, whether they are applied or not.
  bool await_begun(std::uint64_t steps) const {
    return eventually([&] { return trainer->steps_begun() >= steps; });
  }
  std::vector<float> parameters() const { return contents(*arena); }
  static std::vector<float> contents(models::Arena& it) {
    std::vector<float> x(it.size());
    it.wait();
    it.read(0, x);
    return x;
  }

  training::Experiment experiment;
  datasets::DataPair data = datasets::make_glyphs(1, 300, 50);
  std::unique_ptr<models::Plan> plan;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<models::Arena> arena;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t reported = 0;
  const training::PeerState* restored = nullptr;  // the state to resume from
  std::uint64_t allowed = UINT64_MAX;             // samples, from the start
  std::vector<std::string> lost;                  // parts of the state that were lost
  std::unique_ptr<training::DeviceGroup> group;
  std::unique_ptr<HogwildTrainer> trainer;
};

// Takes copies of a trainer's state.
class CaptureTaker {
 public:
  std::shared_ptr<training::PeerState> take(HogwildTrainer& trainer) {
    REQUIRE(trainer.capture([this](std::shared_ptr<training::PeerState> state) {
      const std::lock_guard lock(mutex_);
      state_ = std::move(state);
      changed_.notify_all();
    }));
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kHang, [&] { return state_ != nullptr; }));
    return std::move(state_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<training::PeerState> state_;
};

}  // namespace starling::node::testing
