// The learner of an experiment in virtual time: it computes real steps, on the replica as it was at each
// step's beginning, while virtual time advances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/learner.h"
#include "training/experiment/schedule.h"
#include "training/replica/worker.h"

namespace starling::lab {

// Serializes values as consecutive bytes, for states that only the same program reads again. The reader
// checks every length, so it detects truncated and foreign data.
class StateWriter {
 public:
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  template <class Vector>
  void values(const Vector& values) {
    static_assert(std::is_trivially_copyable_v<typename Vector::value_type>);
    value(static_cast<std::uint64_t>(values.size()));
    append(std::as_bytes(std::span(values)));
  }
  Bytes bytes() const { return bytes_; }

 private:
  void append(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

// A value beyond the end reads as zero, and fits() is false from then on.
class StateReader {
 public:
  explicit StateReader(Bytes bytes) : bytes_(bytes) {}

  template <class T>

  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    copy(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  template <class T>

  std::vector<T> values() {
    const auto count = value<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) {
      fits_ = false;
      return {};
    }
    std::vector<T> values(count);
    copy(std::as_writable_bytes(std::span(values)));
    return values;
  }

  // REQUIRES: as many bytes as were written; else fits() is false.
  void into(MutableBytes out) {
    if (value<std::uint64_t>() != out.size()) {
      fits_ = false;
      return;
    }
    copy(out);
  }

  // Whether everything was read and nothing was missing.
  bool done() const { return fits_ && bytes_.empty(); }
  bool fits() const { return fits_; }

 private:
  void copy(MutableBytes out) {
    if (out.size() > bytes_.size()) {
      fits_ = false;
      return;
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data(), out.size());
    bytes_ = bytes_.subspan(out.size());
  }

  Bytes bytes_;
  bool fits_ = true;
};

class TrainingLearner final : public Learner {
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

  // The state between two happenings, with steps under way. load() puts it into a learner that has rehearsed
  // the same steps; an Error if the state is not of such a learner.
  void save(StateWriter& out, const models::Arena& arena) {
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

  Status load(StateReader& in, const models::Arena& arena) {
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

  static void save_worker(StateWriter& out, const training::WorkerState& state) {
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

  static training::WorkerState load_worker(StateReader& in) {
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
