// The learner of an experiment in virtual time: it computes real steps, on the replica as it was at each
// step's beginning, while virtual time advances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/simulate/learner_state.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/virtual_run.h"
#include "training/experiment/schedule.h"
#include "training/replica/worker.h"

namespace starling::lab {

class TrainingLearner final : public RestorableLearner {
 public:
  // While `rehearsing` is set, steps begin and end without computing; load() follows when it is cleared.
  // `rate`, `ahead` and `rehearsing` outlive the learner.
  TrainingLearner(std::vector<std::unique_ptr<training::Worker>> workers, const LearningRate& rate,
                  StepsAhead& ahead, const bool& rehearsing)
      : rate_(rate), ahead_(ahead), rehearsing_(rehearsing), places_(workers.size()) {
    for (std::size_t k = 0; k < workers.size(); ++k) places_[k].worker = std::move(workers[k]);
    if (!places_.empty()) batch_size_ = places_.front().worker->batch_size();
  }

  ~TrainingLearner() override { drop_all(); }

  void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) override {
    Place& place = places_.at(worker);
    place.stepping = true;
    place.ends = ends;
    if (!rehearsing_) ahead_.begin(place.step, *place.worker, arena, ends);
  }

  void arena_will_change() override {
    for (auto& place : places_) ahead_.keep(place.step);
  }
  void swarm_has_consumed(std::uint64_t samples) override { swarm_samples_ = samples; }

  std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) override {
    Place& place = places_.at(worker);
    place.stepping = false;
    if (rehearsing_) return batch_size_;
    const double loss = ahead_.finish(place.step);
    smoothed_loss_ = steps_++ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
    const double factor =
        training::step_rate_factor(rate_.schedule, swarm_samples_, batch_size_, rate_.epoch_samples, steps_);
    learning_rate_ = rate_.base * factor;
    arena_will_change();  // for the steps of other workers
    place.worker->apply(arena, factor);
    ahead_.done(*place.worker);
    return batch_size_;
  }

  void discard_step(std::uint32_t worker) override {
    Place& place = places_.at(worker);
    place.stepping = false;
    if (!place.step.under_way()) return;
    ahead_.finish(place.step);  // computing it draws its batch
    ahead_.done(*place.worker);
  }

  void renew() override {
    renewed_ = true;
    if (rehearsing_) return;
    for (auto& place : places_) {
      ahead_.wait(place.step);
      place.worker->renew();
    }
  }

  void join(std::uint64_t swarm_samples) override {
    if (training::needs_warm_up(rate_.schedule, swarm_samples, batch_size_)) renew();
  }

  void over() override {
    drop_all();
    for (auto& place : places_) place.worker.reset();
  }

  double loss() const override { return smoothed_loss_; }
  std::optional<double> learning_rate() const override { return learning_rate_; }

  void save(StateWriter& out, const models::Arena& arena) override {
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

  Status load(StateReader& in, const models::Arena& arena) override {
    const Error anothers = of_another_experiment();
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
      if (renewed_) place.worker->renew();  // the saved state has no warm-up
      if (Status restored = place.worker->restore_cursor(state); !restored) return restored;
      if (Status restored = place.worker->restore_optimizer(state, arena); !restored) return restored;
      if (stepping) ahead_.begin(place.step, *place.worker, arena, place.ends, midway);
    }
    return Done{};
  }

 private:
  using Midway = StepsAhead::Midway;
  struct Place {
    std::unique_ptr<training::Worker> worker;
    StepsAhead::Step step{};
    bool stepping = false;
    Instant ends{};
  };

  void drop_all() {
    for (auto& place : places_) ahead_.drop(place.step);
  }

  const LearningRate& rate_;
  StepsAhead& ahead_;
  const bool& rehearsing_;
  std::vector<Place> places_;
  std::uint32_t batch_size_ = 0;
  std::uint64_t swarm_samples_ = 0;
  std::optional<double> learning_rate_;
  double smoothed_loss_ = 0;
  std::uint64_t steps_ = 0;
  bool renewed_ = false;
};

}  // namespace starling::lab
