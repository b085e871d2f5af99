// Gradients of the steps that virtual machines are in the middle of. A step sees the replica as it was when
// it began and is needed only when it ends, so it is computed by a pool's threads shortly before that: of all
// steps under way a few, those that end next, hold a vector besides their replica and what their optimizer
// remembers. A step that is still to be computed gets a copy of its replica when that is about to change.
// When a step is computed changes nothing about what it finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "kernels/buffer.h"
#include "lab/thread_pool.h"
#include "models/arena.h"
#include "training/replica/worker.h"

namespace starling::lab {

class StepsAhead {
 public:
  // At most `ahead` steps are computed before they end. The pool outlives it; all workers are of one network.
  StepsAhead(ThreadPool& pool, std::size_t ahead) : pool_(pool), ahead_(ahead) {}

  // One of a worker's; the owner's, and it stays where it is while it is under way.
  class Step {
   public:
    bool under_way() const { return state_ != State::none; }

   private:
    friend class StepsAhead;
    enum class State { none, waiting, submitted };
    State state_ = State::none;
    bool has_copy_ = false;  // of the replica, in the worker's vector
    Instant ends_{};
    std::uint64_t number_ = 0;
    training::Worker* worker_ = nullptr;
    const models::Arena* arena_ = nullptr;
    std::future<double> computing_{};
    double loss_ = 0;
  };

  // What there is of a step under way, for whoever puts it back elsewhere: what its vector holds, and its
  // loss.
  struct Midway {
    enum class Vector : std::uint8_t { none, parameters, gradient };
    Vector holds = Vector::none;
    std::span<const float> vector{};
    double loss = 0;
  };

  // It sees the arena as it is now and is needed at `ends`. REQUIRES: !step.under_way(); worker and arena
  // outlive it.
  void begin(Step& step, training::Worker& worker, const models::Arena& arena, Instant ends);
  // The arena is about to change.
  void keep(Step& step);
  // No worker computes on it when this returns; what it finds stays.
  static void wait(Step& step);
  // Waits for what is being computed. The vector stays until finish() or drop(). REQUIRES: step.under_way().
  static Midway midway(Step& step);
  // As begin(), and it is as far as that. REQUIRES: the vector is of the arena's size, where there is one.
  void go_on(Step& step, training::Worker& worker, const models::Arena& arena, Instant ends,
             const Midway& from);
  // Its mean loss; the worker has its gradient until done(). REQUIRES: step.under_way(), then it is no
  // longer.
  double finish(Step& step);
  // Its worker's vector is free for others.
  void done(training::Worker& worker);
  // Vectors that workers have at this moment.
  std::size_t vectors_lent() const { return lent_; }
  // Nobody asks for it any more. No worker computes on it when this returns.
  void drop(Step& step);

 private:
  using Key = std::tuple<Instant, std::uint64_t>;  // those that end first come first
  static Key key(const Step& step) { return {step.ends_, step.number_}; }
  struct Earlier {
    bool operator()(const Step* a, const Step* b) const { return key(*a) < key(*b); }
  };

  void submit(Step& step);
  void submit_next();
  void give_vector(training::Worker& worker);

  ThreadPool& pool_;
  std::size_t ahead_;
  std::set<Step*, Earlier> waiting_, submitted_;
  std::vector<kernels::Buffer> vectors_;  // that nobody uses
  std::size_t lent_ = 0;
  std::uint64_t begun_ = 0;
  Instant reached_{};  // in virtual time
};

}  // namespace starling::lab
