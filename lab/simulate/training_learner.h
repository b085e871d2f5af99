// The learner of an experiment in virtual time: it computes real steps, on the replica as it was at each
// step's beginning, while virtual time advances.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/simulate/learner_state.h"
#include "lab/simulate/steps_ahead.h"
#include "training/learning/device_group.h"

namespace starling::lab {

// The devices of a peer, each with a replica.
struct LearningDevices {
  std::vector<const kernels::Backend*> backends;  // that compute, of each device
  std::uint32_t average_every = 1;                // steps of each device
  Duration average{0};                            // that each device waits for a mean of their replicas
};

class TrainingLearner final : public RestorableLearner {
 public:
  // `rate` and `rehearsing` as of RestorableLearner; `ahead` outlives the learner, too. With `devices` each
  // has the same number of workers, those of the first one first.
  TrainingLearner(std::vector<std::unique_ptr<VirtualWorker>> workers, const LearningRate& rate,
                  StepsAhead& ahead, const bool& rehearsing, std::optional<LearningDevices> devices = {})
      : RestorableLearner(rate, rehearsing, workers.empty() ? 0 : workers.front()->batch_size()),
        ahead_(ahead),
        devices_(std::move(devices)),
        places_(workers.size()) {
    for (std::size_t k = 0; k < workers.size(); ++k) places_[k].worker = std::move(workers[k]);
  }

  ~TrainingLearner() override {
    for (auto& place : places_) ahead_.abandon(place.step);
  }

  void start(models::Arena& arena) override {
    if (!devices_) return;
    group_ = std::make_unique<training::DeviceGroup>(arena, devices_->backends);
    group_->adopt();
    average_due_ = std::uint64_t{devices_->average_every} * group_->size();
    landed_ = 0;
  }
  void stop() override {
    if (group_) average();
  }
  Duration waits(std::uint32_t worker) override {
    return std::exchange(places_.at(worker).waits, Duration{0});
  }

  void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) override {
    Place& place = places_.at(worker);
    place.stepping = true;
    place.ends = ends;
    if (!rehearsing()) ahead_.begin(place.step, *place.worker, read_by(worker, arena), ends);
  }

  void arena_will_change() override {
    if (!group_) keep_all();
  }

  std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) override {
    Place& place = places_.at(worker);
    place.stepping = false;
    if (!rehearsing()) land(worker, arena);
    if (group_ && ++landed_ >= average_due_) average();
    return batch_size_;
  }

  void discard_step(std::uint32_t worker) override {
    Place& place = places_.at(worker);
    place.stepping = false;
    if (!place.step.under_way()) return;
    ahead_.finish(place.step);  // computing it draws its batch
    ahead_.done(place.step);
  }

  void renew() override {
    renewed_ = true;
    if (group_) {
      keep_all();
      group_->adopt();
    }
    if (rehearsing()) return;
    for (auto& place : places_) {
      ahead_.wait(place.step);
      place.worker->renew();
    }
  }

  void over() override {
    drop_all();
    for (auto& place : places_) place.worker.reset();
    group_.reset();
  }

  void save(StateWriter& out, const models::Arena& arena) override {
    save_counts(out);
    if (group_) save_group(out);
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
      save_worker(out, place.worker->save(read_by(number_of(place), arena)));
    }
  }

  Status load(StateReader& in, const models::Arena& whole) override {
    const Error anothers = of_another_experiment();
    load_counts(in);
    if (group_) {  // before its steps, which read it
      if (Status loaded = load_group(in); !loaded) return loaded;
    }
    for (Place& place : places_) {
      const models::Arena& arena = read_by(number_of(place), whole);
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
      if (Status restored = place.worker->restore(state, arena); !restored) return restored;
      if (stepping) ahead_.begin(place.step, *place.worker, arena, place.ends, midway);
    }
    return Done{};
  }

 private:
  using Midway = StepsAhead::Midway;
  struct Place {
    std::unique_ptr<VirtualWorker> worker;
    StepsAhead::Step step{};
    bool stepping = false;
    Instant ends{};
    Duration waits{0};
  };

  std::size_t number_of(const Place& place) const {
    return static_cast<std::size_t>(&place - places_.data());
  }

  void save_group(StateWriter& out) {
    for (std::size_t d = 0; d < group_->size(); ++d)
      out.values(std::span(group_->replica(d).data(), group_->replica(d).size()));
    out.values(group_->mean());
  }

  Status load_group(StateReader& in) {
    for (std::size_t d = 0; d < group_->size(); ++d) {
      const auto values = in.values<float>();
      if (values.size() != group_->replica(d).size()) return of_another_experiment();
      group_->replica(d).write(0, values);
    }
    const auto mean = in.values<float>();
    if (mean.size() != group_->mean().size()) return of_another_experiment();
    std::ranges::copy(mean, group_->mean().begin());
    return Done{};
  }

  // The step's update, on the replica that its device trains.
  void land(std::uint32_t worker, models::Arena& arena) {
    Place& place = places_[worker];
    const double factor = next_factor();
    count_step(ahead_.finish(place.step));
    count_update(factor);
    for (std::size_t other = 0; other < places_.size(); ++other)
      if (!group_ || device_of(other) == device_of(worker)) ahead_.keep(places_[other].step);
    place.worker->apply(group_ ? group_->replica(device_of(worker)) : arena, place.step.gradient(), factor);
    ahead_.done(place.step);
  }

  void keep_all() {
    for (auto& place : places_) ahead_.keep(place.step);
  }

  std::size_t device_of(std::size_t worker) const { return worker / (places_.size() / group_->size()); }
  // What the steps of a worker read.
  const models::Arena& read_by(std::size_t worker, const models::Arena& arena) const {
    return group_ ? group_->replica(device_of(worker)) : arena;
  }

  // The devices' replicas, the peer's included. While rehearsing too, as it counts what was mixed.
  void average() {
    keep_all();
    group_->average();
    average_due_ = landed_ + std::uint64_t{devices_->average_every} * group_->size();
    for (Place& place : places_) place.waits += devices_->average;
  }

  void drop_all() {
    for (auto& place : places_) ahead_.drop(place.step);
  }

  StepsAhead& ahead_;
  std::optional<LearningDevices> devices_;
  std::unique_ptr<training::DeviceGroup> group_;  // between start() and over()
  std::uint64_t landed_ = 0, average_due_ = 0;    // steps since start()
  std::vector<Place> places_;
  bool renewed_ = false;
};

}  // namespace starling::lab
