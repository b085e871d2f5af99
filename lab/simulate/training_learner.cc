#include "lab/simulate/training_learner.h"

#include <utility>

#include "training/experiment/schedule.h"

namespace starling::lab {
namespace {

using Midway = StepsAhead::Midway;

void save_worker(StateWriter& out, const training::WorkerState& state) {
  out.values(state.cursor.order);
  out.value(state.cursor.position);
  out.value(state.cursor.random);
  out.value(state.images.has_value());
  if (state.images) out.value(*state.images);
  out.value(state.draws);
  out.values(state.velocity);
  out.values(state.square);
  out.value(state.steps);
  out.value(state.following.has_value());
  if (!state.following) return;
  out.value(state.following->mixed);
  out.value(state.following->steps);
  out.value(state.following->rates);
  out.values(state.following->last);
}

training::WorkerState load_worker(StateReader& in) {
  training::WorkerState state;
  state.cursor.order = in.values<std::uint32_t>();
  state.cursor.position = in.value<std::uint64_t>();
  state.cursor.random = in.value<training::RandomState>();
  if (in.value<bool>()) state.images = in.value<training::RandomState>();
  state.draws = in.value<std::uint64_t>();
  state.velocity = in.values<float>();
  state.square = in.values<float>();
  state.steps = in.value<std::uint64_t>();
  if (!in.value<bool>()) return state;
  auto& following = state.following.emplace();
  following.mixed = in.value<bool>();
  following.steps = in.value<std::uint64_t>();
  following.rates = in.value<double>();
  following.last = in.values<float>();
  return state;
}

}  // namespace

TrainingLearner::TrainingLearner(std::vector<std::unique_ptr<training::Worker>> workers,
                                 const LearningRate& rate, StepsAhead& ahead, const bool& rehearsing)
    : rate_(rate), ahead_(ahead), rehearsing_(rehearsing), places_(workers.size()) {
  for (std::size_t k = 0; k < workers.size(); ++k) places_[k].worker = std::move(workers[k]);
  if (!places_.empty()) batch_size_ = places_.front().worker->batch_size();
}

void TrainingLearner::begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) {
  Place& place = places_.at(worker);
  place.stepping = true;
  place.ends = ends;
  if (!rehearsing_) ahead_.begin(place.step, *place.worker, arena, ends);
}

void TrainingLearner::arena_will_change() {
  for (auto& place : places_) ahead_.keep(place.step);
}

std::uint64_t TrainingLearner::end_step(std::uint32_t worker, models::Arena& arena) {
  Place& place = places_.at(worker);
  place.stepping = false;
  if (rehearsing_) return batch_size_;
  const double loss = ahead_.finish(place.step);
  smoothed_loss_ = steps_++ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
  const double factor =
      training::step_rate_factor(rate_.schedule, swarm_samples_, batch_size_, rate_.epoch_samples);
  learning_rate_ = rate_.base * factor;
  arena_will_change();  // for the steps of other workers
  place.worker->apply(arena, factor);
  ahead_.done(*place.worker);
  return batch_size_;
}

void TrainingLearner::discard_step(std::uint32_t worker) {
  Place& place = places_.at(worker);
  place.stepping = false;
  if (!place.step.under_way()) return;
  ahead_.finish(place.step);  // computing it draws its batch
  ahead_.done(*place.worker);
}

void TrainingLearner::renew() {
  if (rehearsing_) return;
  for (auto& place : places_) {
    ahead_.wait(place.step);
    place.worker->renew();
  }
}

void TrainingLearner::over() {
  drop_all();
  for (auto& place : places_) place.worker.reset();
}

void TrainingLearner::drop_all() {
  for (auto& place : places_) ahead_.drop(place.step);
}

void TrainingLearner::save(StateWriter& out, const models::Arena& arena) {
  out.value(smoothed_loss_);
  out.value(steps_);
  out.value(learning_rate_.has_value());
  out.value(learning_rate_.value_or(0));
  for (Place& place : places_) {
    out.value(place.worker != nullptr);
    if (!place.worker) continue;  // training has ended
    out.value(place.step.under_way());
    if (place.step.under_way()) {
      const Midway midway = ahead_.midway(place.step);
      out.value(midway.holds);
      out.value(midway.loss);
      out.values(midway.vector);
    }
    save_worker(out, place.worker->save_midway(arena));
  }
}

Status TrainingLearner::load(StateReader& in, const models::Arena& arena) {
  const Error anothers{"the state of a learner is of another experiment"};
  smoothed_loss_ = in.value<double>();
  steps_ = in.value<std::uint64_t>();
  const bool has_rate = in.value<bool>();
  const auto rate = in.value<double>();
  if (has_rate) learning_rate_ = rate;
  for (Place& place : places_) {
    if (in.value<bool>() != (place.worker != nullptr)) return anothers;
    if (!place.worker) continue;
    const bool stepping = in.value<bool>();
    if (stepping != place.stepping) return anothers;
    Midway midway;
    std::vector<float> vector;
    if (stepping) {
      midway.holds = in.value<Midway::Vector>();
      midway.loss = in.value<double>();
      vector = in.values<float>();
      midway.vector = vector;
      if (vector.size() != (midway.holds == Midway::Vector::none ? 0 : arena.size())) return anothers;
    }
    const training::WorkerState state = load_worker(in);
    if (!in.fits()) return anothers;
    if (Status restored = place.worker->restore_cursor(state); !restored) return restored;
    if (Status restored = place.worker->restore_optimizer(state, arena); !restored) return restored;
    if (stepping) ahead_.begin(place.step, *place.worker, arena, place.ends, midway);
  }
  return Done{};
}

}  // namespace starling::lab
