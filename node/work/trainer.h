// The Hogwild workers of a peer: a thread each, on one arena, without a lock between them or against the
// exchange. Where the peer has several devices, each has workers of its own on a replica of its own, and one
// more thread averages those (training/device_group.h). They count what they did in atomics that the daemon's
// thread reads. Where they run and at what priority: node/processors.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
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
#include "node/work/processors.h"
#include "node/work/slowdown.h"
#include "training/replica/device_group.h"
#include "training/records/peer_state.h"
#include "training/replica/worker.h"

namespace starling::node {

struct TrainerOptions {
  Duration pace{0};  // least time of a step
  std::vector<Slowdown> slowdowns;
  std::string machine = "starling";  // under this name it takes processors for its workers
  std::uint32_t average_every = 8;   // steps of a device between two averages of a group's
  // So many steps are made and not one more, those that were restored included: a worker that would begin another waits to
  // be stopped. Who is told of steps hears of them late, and a quick network makes a thousand meanwhile.
  std::uint64_t last_step = UINT64_MAX;
  bool in_turn = false;  // after a step a worker waits until it was heard(), and so for a pause that it leads to
};

class Trainer {
 public:
  // `stepped` is called on a worker's thread after every step; it must be quick. With a `group`, whose peer's
  // arena is `arena`, its devices have equally many workers each, the first device the first of them.
  Trainer(std::vector<std::unique_ptr<training::Worker>> workers, models::Arena& arena,
          TrainerOptions options, std::function<void()> stepped, training::DeviceGroup* group = nullptr);
  ~Trainer();  // stops and waits for the threads

  // Before start(): goes on from there. What a worker cannot take up, as it is of another shard, another optimizer or
  // of another number of workers, begins anew, and a sentence of the list says so.
  std::vector<std::string> restore(const training::PeerState& state);
  // Before start(): the arena holds somebody else's parameters than those that were restored.
  void moved();

  void start();
  // No step begins after this, and the steps under way are thrown away: when it returns, the workers have
  // changed the arena and the counts for the last time, and a group has averaged for the last time. Waits
  // only for updates that are just being added (a pass over the arena).
  void stop();
  // Stops, waits for the steps under way, and frees what the workers held. The counts stay.
  void give_back();

  // Until resume() no further step begins. A step under way lands, or is thrown away: then, when this
  // returns, the arena is left alone.
  void pause(bool discard);
  // `renewed`: the arena holds somebody else's parameters; optimizers begin anew. REQUIRES: then, paused with
  // `discard`.
  void resume(bool renewed);

  // Asks for a copy of all that training remembers. Every worker copies what is its own between two steps, on its own
  // thread, and goes on; the last one to do so reads the arena, and calls `done` there. So nothing is torn: a worker's
  // samples, optimizer and count are those of one moment, and the parameters hold every step that is counted, with
  // several workers perhaps a few more. Of several devices the parameters are those of their next average. One at a
  // time: false, and nothing is asked, while another goes on. Once the trainer is stopped nothing comes any more.
  using Captured = std::function<void(std::shared_ptr<training::PeerState>)>;
  bool capture(Captured done);
  // The same of a trainer that has stopped, or was never started: waits for its threads.
  training::PeerState remains();

  // Whatever follows from so many steps has been done. Workers that go in turn wait for this.
  void heard(std::uint64_t steps);

  // By what the learning rate of steps is multiplied that are added from now on (training/schedule.h); 1 at
  // first.
  void set_rate_factor(double factor) { rate_factor_.store(factor, std::memory_order_relaxed); }
  double rate_factor() const { return rate_factor_.load(std::memory_order_relaxed); }

  // With those of earlier lives, where it was restored.
  std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  std::uint64_t steps_begun() const { return steps_begun_.load(std::memory_order_relaxed); }
  std::uint64_t samples() const { return samples_.load(std::memory_order_relaxed); }
  // For how long all workers together have waited, for a pause to end or to be stopped after the last step, until now.
  Duration idle() const;
  std::optional<double> loss() const;  // smoothed over late steps; nullopt before the first
  bool non_finite() const {
    return non_finite_.load(std::memory_order_relaxed);
  }  // a loss, or a mean of the devices' replicas, was NaN or infinite
  // How far the devices' replicas were from their mean when they last averaged (DeviceGroup::Spread); nothing
  // without a group, and before.
  std::optional<double> spread() const;
  // Why a worker has ended by itself: its device failed. Nothing while all work.
  std::optional<std::string> failure() const;

 private:
  // Of a worker: what it has done since start(), of its own thread while that runs.
  struct Seat {
    std::uint64_t steps = 0, samples = 0;
    std::uint64_t answered = 0;  // captures
  };
  void answer_capture(std::size_t worker);
  void complete_capture();
  void join();
  void settle(std::size_t worker) const;
  void begin(std::function<void()> body);
  void work(std::size_t number);
  models::Arena& arena_of(std::size_t worker);
  void average_now_and_then();
  void average();
  bool average_is_due() const { return group_ != nullptr && steps_ >= average_due_; }
  void wait_for_updates() const;
  void fail(const std::string& why);
  bool apply(std::size_t number, double loss, std::uint64_t era);
  std::optional<std::uint64_t> await_turn(std::optional<std::size_t> worker);
  bool take_step();
  void give_step_back();
  void await_time(std::chrono::steady_clock::time_point until);

  std::vector<std::unique_ptr<training::Worker>> workers_;
  models::Arena& arena_;
  TrainerOptions options_;
  std::function<void()> stepped_;
  training::DeviceGroup* group_;
  std::atomic<std::uint64_t> average_due_{0};  // when so many steps are made
  std::atomic<double> spread_{-1};             // negative: never averaged
  std::atomic<std::uint64_t> steps_begun_{0}, steps_{0}, samples_{0}, heard_{0};
  std::atomic<std::uint64_t> steps_taken_{0};  // made or under way, where last_step bounds them
  std::atomic<double> loss_{0}, rate_factor_{1};
  std::atomic<bool> stopped_{false}, paused_{false}, non_finite_{false};
  std::atomic<std::uint64_t> era_{0};       // counts the discards: a step of an earlier era is thrown away
  std::atomic<std::uint64_t> renewals_{0};  // a worker that has seen fewer forgets its optimizer's state
  std::atomic<std::uint32_t> applying_{0};  // workers that are adding an update
  mutable std::mutex mutex_;  // of `failure_`, and for waiting: paced, slowed and paused steps sleep on it
  std::optional<std::string> failure_;
  std::condition_variable wake_;
  std::size_t standing_ = 0;    // workers that wait for a pause to end, and since when it is all of them
  std::chrono::steady_clock::time_point standing_since_;
  Duration stood_{0};  // until then
  std::vector<Seat> seats_;                 // of the workers by number
  training::PeerState earlier_;             // that was restored, without parameters and workers
  std::atomic<std::uint64_t> captures_{0};  // asked for: a worker that has answered fewer copies itself
  std::shared_ptr<training::PeerState> captured_;  // under way; under the lock, as the next ones
  Captured capture_done_;
  std::size_t captures_missing_ = 0;  // workers that have not answered yet
  bool capture_awaits_average_ = false;
  std::vector<Processor> processors_;  // of the workers by number; empty: the kernel chooses
  std::vector<std::thread> threads_;
};

}  // namespace starling::node
