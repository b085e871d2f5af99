#include "lab/simulate/steps_ahead.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::lab {

void StepsAhead::begin(Step& step, training::Worker& worker, const models::Arena& arena, Instant ends,
                       const Midway& from) {
  STARLING_CHECK(!step.under_way());
  step.has_copy_ = false;
  step.ends_ = ends;
  step.number_ = begun_++;
  step.worker_ = &worker;
  step.arena_ = &arena;
  const bool is_gradient = from.holds == Midway::Vector::gradient;
  if (from.holds != Midway::Vector::none) {
    give_vector(worker);
    worker.put(from.vector, is_gradient);
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

void StepsAhead::wait(Step& step) {
  if (step.computing_.valid()) step.loss_ = step.computing_.get();
}

StepsAhead::Midway StepsAhead::midway(Step& step) {
  wait(step);
  if (step.state_ == Step::State::submitted)
    return {Midway::Vector::gradient, step.worker_->gradient(), step.loss_};
  if (step.has_copy_) return {Midway::Vector::parameters, step.worker_->gradient(), 0};
  return {};
}

void StepsAhead::keep(Step& step) {
  if (!step.under_way() || step.has_copy_) return;
  if (step.state_ == Step::State::submitted) return wait(step);
  give_vector(*step.worker_);
  step.worker_->take(*step.arena_);
  step.has_copy_ = true;
}

double StepsAhead::finish(Step& step) {
  STARLING_CHECK(step.under_way());
  if (step.state_ == Step::State::waiting) submit(step);
  submitted_.erase(&step);
  step.state_ = Step::State::none;
  reached_ = std::max(reached_, step.ends_);
  submit_next();  // before waiting for this one
  wait(step);
  return step.loss_;
}

void StepsAhead::done(training::Worker& worker) {
  vectors_.push_back(worker.give_back());
  --lent_;
}

void StepsAhead::drop(Step& step) {
  if (!step.under_way()) return;
  if (step.state_ == Step::State::waiting) {
    waiting_.erase(&step);
  } else {
    submitted_.erase(&step);
    wait(step);
  }
  if (step.has_copy_ || step.state_ == Step::State::submitted) done(*step.worker_);
  step.state_ = Step::State::none;
  submit_next();
}

void StepsAhead::submit(Step& step) {
  waiting_.erase(&step);
  submitted_.insert(&step);
  step.state_ = Step::State::submitted;
  if (!step.has_copy_) give_vector(*step.worker_);
  step.computing_ = pool_.submit([&worker = *step.worker_, &arena = *step.arena_, has_copy = step.has_copy_] {
    return has_copy ? worker.compute_taken() : worker.compute(arena.data());
  });
}

// Steps of paused machines, which are past their end, do not count: it is unknown when they will be needed.
void StepsAhead::submit_next() {
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

void StepsAhead::give_vector(training::Worker& worker) {
  ++lent_;
  if (vectors_.empty()) return;  // the worker allocates one
  worker.lend(std::move(vectors_.back()));
  vectors_.pop_back();
}

}  // namespace starling::lab
