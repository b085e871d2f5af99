// The gradients of steps under way on virtual machines. A step uses the replica as it was at the step's
// beginning, and its result is needed at its end, so a thread pool computes it shortly before: only the few
// steps that end next hold a vector besides the replica and the optimizer's state. A step that is not
// computed yet gets a copy of its replica when that is about to change. The time of the computation does not
// change its result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "kernels/buffer.h"
#include "lab/simulate/virtual_worker.h"
#include "lab/thread_pool.h"
#include "models/arena.h"

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
    // After finish(), until done().
    std::span<const float> gradient() { return vector_.values(); }

   private:
    friend class StepsAhead;
    enum class State { none, waiting, submitted };
    State state_ = State::none;
    kernels::Buffer vector_{};  // empty, or a copy of the replica, then the gradient
    bool has_copy_ = false;
    Instant ends_{};
    std::uint64_t number_ = 0;
    VirtualWorker* worker_ = nullptr;
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
  void begin(Step& step, VirtualWorker& worker, const models::Arena& arena, Instant ends,
             const Midway& from) {
    STARLING_CHECK(!step.under_way());
    step.has_copy_ = false;
    step.ends_ = ends;
    step.number_ = begun_++;
    step.worker_ = &worker;
    step.arena_ = &arena;
    const bool is_gradient = from.holds == Midway::Vector::gradient;
    if (from.holds != Midway::Vector::none) {
      give_vector(step);
      std::ranges::copy(from.vector, step.vector_.data());
    }
    if (is_gradient) {
      step.state_ = Step::State::submitted;
      step.loss_ = from.loss;
      submitted_.insert(&step);
    } else {
      step.has_copy_ = from.holds == Midway::Vector::parameters;
      step.state_ = Step::State::waiting;
      waiting_.insert(&step);
    }
    submit_next();
  }

  void begin(Step& step, VirtualWorker& worker, const models::Arena& arena, Instant ends) {
    begin(step, worker, arena, ends, {});
  }

  // Called before the arena changes.
  void keep(Step& step) {
    if (!step.under_way() || step.has_copy_) return;
    if (step.state_ == Step::State::submitted) return wait(step);
    give_vector(step);
    step.arena_->read(0, step.vector_.values());
    step.has_copy_ = true;
  }

  // Waits until no thread computes the step; its result is kept.
  static void wait(Step& step) {
    if (step.computing_.valid()) step.loss_ = step.computing_.get();
  }

  // Waits for the computation. The vector is valid until finish() or drop(). REQUIRES: step.under_way().
  static Midway midway(Step& step) {
    wait(step);
    if (step.state_ == Step::State::submitted)
      return {Midway::Vector::gradient, step.vector_.values(), step.loss_};
    if (step.has_copy_) return {Midway::Vector::parameters, step.vector_.values(), 0};
    return {};
  }

  // Ends the step and returns its mean loss; it has its gradient until done(). REQUIRES: step.under_way().
  double finish(Step& step) {
    STARLING_CHECK(step.under_way());
    if (step.state_ == Step::State::waiting) submit(step);
    submitted_.erase(&step);
    step.state_ = Step::State::none;
    reached_ = std::max(reached_, step.ends_);
    submit_next();  // before waiting for this one
    wait(step);
    return step.loss_;
  }

  // Takes the step's vector back.
  void done(Step& step) {
    vectors_.push_back(std::exchange(step.vector_, {}));
    --lent_;
  }
  // Vectors that steps hold now.
  std::size_t vectors_lent() const { return lent_; }

  // Discards the step, and waits until no thread computes it.
  void drop(Step& step) {
    if (!step.under_way()) return;
    abandon(step);
    submit_next();
  }

  // drop() for an owner that is being destroyed, perhaps because memory is lacking: begins no other step
  // instead. An error of the computation is dropped with its result.
  void abandon(Step& step) noexcept {
    if (step.state_ == Step::State::waiting) {
      waiting_.erase(&step);
      if (step.has_copy_) VirtualWorker::clear(step.vector_);
    } else {
      submitted_.erase(&step);
      if (step.computing_.valid()) step.computing_.wait();
      step.computing_ = {};
    }
    if (step.vector_.size() > 0) done(step);
    step.state_ = Step::State::none;
  }

 private:
  using Key = std::tuple<Instant, std::uint64_t>;  // ordered by end
  static Key key(const Step& step) { return {step.ends_, step.number_}; }
  struct Earlier {
    bool operator()(const Step* a, const Step* b) const { return key(*a) < key(*b); }
  };

  void submit(Step& step) {
    waiting_.erase(&step);
    submitted_.insert(&step);
    step.state_ = Step::State::submitted;
    if (!step.has_copy_) give_vector(step);
    step.computing_ = pool_.submit([&step] {
      VirtualWorker& worker = *step.worker_;
      return step.has_copy_ ? worker.compute(step.vector_)
                            : worker.compute(step.arena_->data(), step.vector_);
    });
  }

  // Steps of paused machines, which are past their end, do not count: it is unknown when they will be needed.
  void submit_next() {
    const auto overdue = [this] {
      std::size_t count = 0;
      for (const Step* step : submitted_) {
        if (step->ends_ >= reached_) break;
        ++count;
      }
      return count;
    };
    while (!waiting_.empty() && submitted_.size() < ahead_ + overdue()) submit(**waiting_.begin());
  }

  void give_vector(Step& step) {
    vectors_.reserve(++lent_ + vectors_.size());  // so that done() needs no memory
    if (vectors_.empty()) {
      step.vector_ = kernels::Buffer(step.arena_->size());
      return;
    }
    step.vector_ = std::move(vectors_.back());
    vectors_.pop_back();
  }

  ThreadPool& pool_;
  std::size_t ahead_;
  std::set<Step*, Earlier> waiting_, submitted_;
  std::vector<kernels::Buffer> vectors_;  // free
  std::size_t lent_ = 0;
  std::uint64_t begun_ = 0;
  Instant reached_{};  // in virtual time
};

}  // namespace starling::lab
