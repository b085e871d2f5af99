// The Hogwild workers of a peer: a thread each, on one arena, without a lock between them or against the
// exchange. If the peer has several devices, each device has its own workers and its own replica, and one
// more thread averages the replicas (training/learning/device_group.h). The daemon's thread reads the counts,
// which are atomics. node/work/processors.h decides where the workers run and at what priority.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "models/arena.h"
#include "node/work/gate.h"
#include "node/work/processors.h"
#include "node/work/slowdown.h"
#include "node/work/trainer.h"
#include "training/learning/device_group.h"
#include "training/learning/worker.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/records/peer_state.h"

namespace starling::node {

// Copies of the state of a training, taken while it runs, one at a time. Each worker adds its own part
// between two of its steps, on its own thread; after the last part the capture is complete and waits for the
// parameters.
class Captures {
 public:
  using Done = Trainer::Done;

  Captures(Gate& gate, std::size_t workers) : gate_(gate), answered_(workers) {}

  // Requests every worker's part, which is added to `earlier`. False while another capture is under way.
  bool begin(const training::PeerState& earlier, Done done) {
    bool begun = false;
    gate_.change([&] {
      if (state_) return;
      begun = true;
      state_ = std::make_shared<training::PeerState>(earlier);
      state_->workers.resize(answered_.size());
      missing_ = answered_.size();
      done_ = std::move(done);
      ++asked_;
    });
    return begun;
  }

  // Called on the worker's own thread.
  bool awaits(std::size_t worker) const { return answered_[worker] != asked_; }
  // True for the last part. REQUIRES: awaits(worker).
  bool add(std::size_t worker, training::WorkerState own, std::uint64_t steps, std::uint64_t samples) {
    answered_[worker] = asked_;
    bool last = false;
    gate_.change([&] {
      state_->workers[worker] = std::move(own);
      state_->steps += steps;
      state_->samples += samples;
      last = --missing_ == 0;
      complete_ = last;
    });
    return last;
  }
  bool is_complete() const { return complete_; }

  // Calls fill(state), then the capture's `done`. REQUIRES: is_complete(); one thread.
  template <class Fill>
  void finish(Fill fill) {
    fill(*state_);
    std::shared_ptr<training::PeerState> state;
    Done done;
    gate_.change([&] {
      state = std::move(state_);
      state_.reset();
      done = std::move(done_);
      complete_ = false;
    });
    done(std::move(state));
  }

 private:
  Gate& gate_;
  std::atomic<std::uint64_t> asked_{0};
  std::vector<std::uint64_t> answered_;  // captures, by worker; written by that worker
  // Of the current capture; this and the next ones need the gate's lock.
  std::shared_ptr<training::PeerState> state_;
  Done done_;
  std::size_t missing_ = 0;
  std::atomic<bool> complete_{false};
};

struct TrainerOptions {
  Duration pace{0};  // the shortest duration of a step
  std::vector<Slowdown> slowdowns;
  std::string machine = "starling";  // the name under which it takes processors for its workers
  std::uint32_t average_every = 8;   // steps of a device between two averages of a group
  // The last step, counted from the peer's first life. A worker that would begin another one waits for
  // stop(). The core learns of steps late, and a fast network would make a thousand more in that time.
  std::uint64_t last_step = UINT64_MAX;
  bool in_turn = false;  // after each step a worker waits for handled(), and so for a pause that may follow
  // The worker that makes each step whose number is a multiple of this waits for handled(), and so for a
  // capture of that step; 0: none waits.
  std::uint64_t wait_every = 0;
  training::RateSchedule schedule{};  // for the peer's own part of the rate factor
};

class HogwildTrainer final : public Trainer {
 public:
  // A worker's thread calls `stepped` after every step; it must be quick. With a `group`, whose peer's arena
  // is `arena`, every device has the same number of workers, numbered device by device.
  HogwildTrainer(std::vector<std::unique_ptr<training::Worker>> workers, models::Arena& arena,
                 TrainerOptions options, std::function<void()> stepped,
                 training::DeviceGroup* group = nullptr);
  ~HogwildTrainer() override { HogwildTrainer::give_back(); }  // stops and waits for the threads

  // A worker whose part does not fit (another shard, optimizer or number of workers) begins without state.
  std::vector<std::string> restore(const training::PeerState& state) override;
  void moved() override {
    for (auto& worker : workers_) worker->moved();
  }

  void start() override;
  // A group averages for the last time. Waits only for updates that are being added at that moment (a pass
  // over the arena).
  void stop() override;
  // Waits for the steps under way, and frees the workers' memory.
  void give_back() override;

  void allow_samples(std::uint64_t samples) override;

  // Steps under way land.
  void pause(PausedBy who) override { gate_.pause(who); }
  void resume(PausedBy who) override { gate_.resume(who); }
  bool is_paused(PausedBy who) const override { return gate_.is_paused(who); }
  void discard_steps() override;
  void renew() override;

  // Every worker copies its own part between two steps, on its own thread; the last one reads the arena and
  // calls `done` there. So a worker's samples, optimizer and count are consistent, and the parameters include
  // every counted step; with several workers perhaps a few more. With several devices the parameters are the
  // next average of the devices.
  bool capture(Done done) override;
  // Waits for its threads.
  training::PeerState remains() override;

  void handled(std::uint64_t steps) override;

  void set_swarm_factor(double factor) override { swarm_factor_.store(factor, std::memory_order_relaxed); }
  double rate_factor() const override {
    return swarm_factor_.load(std::memory_order_relaxed) * own_factor(options_.schedule, steps() + 1);
  }

  std::uint64_t steps() const override { return steps_.load(std::memory_order_relaxed); }
  std::uint64_t steps_begun() const { return steps_begun_.load(std::memory_order_relaxed); }
  std::uint64_t samples() const override { return samples_.load(std::memory_order_relaxed); }
  // How long all workers together have waited so far, for a pause to end or after the last step.
  Duration idle() const override { return gate_.idle(); }
  std::optional<double> loss() const override;
  // A loss, or a mean of the devices' replicas, was NaN or infinite.
  bool non_finite() const override { return non_finite_.load(std::memory_order_relaxed); }
  // DeviceGroup::Spread at the last average; nullopt without a group and before the first average.
  std::optional<double> spread() const override;
  // A worker's device failed.
  std::optional<std::string> failure() const override;

 private:
  // What one worker has done since start(). Its own thread writes it.
  struct Seat {
    std::uint64_t steps = 0, samples = 0;
  };

  class Steps;  // of a worker

  void await_handled(std::size_t worker, std::uint64_t steps);
  bool waits_after(std::uint64_t step) const {
    return options_.in_turn || (options_.wait_every > 0 && step % options_.wait_every == 0);
  }
  std::uint64_t count(std::size_t worker, double loss);
  void wait_for_updates() const;
  models::Arena& arena_of(std::size_t worker);

  void answer_capture(std::size_t worker);
  void complete_capture();
  void read_parameters(training::PeerState& state);

  void average_repeatedly();
  void average();
  bool average_is_due() const;

  void begin(std::function<void()> body);
  void settle(std::size_t worker) const;
  void fail(const std::string& why);
  void join();

  std::vector<std::unique_ptr<training::Worker>> workers_;
  models::Arena& arena_;
  TrainerOptions options_;
  std::function<void()> stepped_;
  training::DeviceGroup* group_;
  Gate gate_;
  StepBudget budget_;
  Captures captures_;
  std::atomic<std::uint64_t> average_due_{0};  // the step after which the next average is due
  std::atomic<double> spread_{-1};             // negative: never averaged
  std::atomic<std::uint64_t> steps_begun_{0}, steps_{0}, samples_{0}, handled_{0};
  std::atomic<double> loss_{0}, swarm_factor_{1};
  std::atomic<bool> non_finite_{false};
  std::atomic<std::uint64_t> renewals_{0};  // a worker that has seen fewer renews its optimizer
  std::atomic<std::uint32_t> applying_{0};  // threads that are changing an arena
  mutable std::mutex failure_mutex_;
  std::optional<std::string> failure_;
  std::vector<Seat> seats_;            // by worker
  training::PeerState earlier_;        // what was restored, without parameters and workers
  std::vector<Processor> processors_;  // of workers, thread by thread; empty: the kernel chooses
  std::vector<std::thread> threads_;
};

}  // namespace starling::node
