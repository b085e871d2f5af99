// The gradients of steps under way on virtual machines. A step uses the replica as it was at the step's
// beginning, and its result is needed at its end, so a thread pool computes it shortly before: only the few
// steps that end next hold a vector besides the replica and the optimizer's state. A step that is not
// computed yet gets a copy of its replica when that is about to change. The time of the computation does not
// change its result.
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
  // Computes at most `ahead` steps before they end. The pool outlives this; all workers have the same
  // network.
  StepsAhead(ThreadPool& pool, std::size_t ahead) : pool_(pool), ahead_(ahead) {}

  // A step of one worker. The owner must not move it while it is under way.
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

  // The state of a step under way, for a checkpoint: the content of its vector, and its loss.
  struct Midway {
    enum class Vector : std::uint8_t { none, parameters, gradient };
    Vector holds = Vector::none;
    std::span<const float> vector{};
    double loss = 0;
  };

  // Begins a step on the arena's current values, or continues it from the state `from`. It ends at `ends`.
  // REQUIRES: !step.under_way(); worker and arena outlive the step; the vector of `from`, if any, has the
  // arena's size.
  void begin(Step& step, training::Worker& worker, const models::Arena& arena, Instant ends,
             const Midway& from);
  void begin(Step& step, training::Worker& worker, const models::Arena& arena, Instant ends) {
    begin(step, worker, arena, ends, {});
  }
  // Called before the arena changes.
  void keep(Step& step);
  // Waits until no thread computes the step; its result is kept.
  static void wait(Step& step);
  // Waits for the computation. The vector is valid until finish() or drop(). REQUIRES: step.under_way().
  static Midway midway(Step& step);
  // Ends the step and returns its mean loss; the worker holds the gradient until done(). REQUIRES:
  // step.under_way().
  double finish(Step& step);
  // Takes the worker's vector back.
  void done(training::Worker& worker);
  // Vectors that workers hold now.
  std::size_t vectors_lent() const { return lent_; }
  // Discards the step, and waits until no thread computes it.
  void drop(Step& step);

 private:
  using Key = std::tuple<Instant, std::uint64_t>;  // ordered by end
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
  std::vector<kernels::Buffer> vectors_;  // free
  std::size_t lent_ = 0;
  std::uint64_t begun_ = 0;
  Instant reached_{};  // in virtual time
};

}  // namespace starling::lab
