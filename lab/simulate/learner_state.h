// Learners that compute: what they count, and their state in checkpoints of a simulation, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/learner.h"
#include "models/arena.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/records/peer_state.h"

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

inline void save_worker(StateWriter& out, const training::WorkerState& state) {
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

inline training::WorkerState load_worker(StateReader& in) {
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

// A learner that computes. Its batches in flight are a part of its state.
class RestorableLearner : public Learner {
 public:
  // While `rehearsing` is set, steps begin and end without computing; load() follows when it is cleared. Both
  // references outlive the learner.
  RestorableLearner(const LearningRate& rate, const bool& rehearsing, std::uint32_t batch_size)
      : batch_size_(batch_size), rate_(rate), rehearsing_(rehearsing) {}

  void swarm_has_consumed(std::uint64_t samples) final { swarm_samples_ = samples; }
  void join(std::uint64_t swarm_samples) final {
    if (training::needs_warm_up(rate_.schedule, swarm_samples, batch_size_)) renew();
  }
  double loss() const final { return smoothed_loss_; }
  std::optional<double> learning_rate() const final { return learning_rate_; }

  // The state between two happenings, with steps under way. load() puts it into a learner that has rehearsed
  // the same steps; an Error if the state is not of such a learner.
  virtual void save(StateWriter& out, const models::Arena& arena) = 0;
  virtual Status load(StateReader& in, const models::Arena& arena) = 0;

 protected:
  static Error of_another_experiment() { return Error{"the state of a learner is of another experiment"}; }

  bool rehearsing() const { return rehearsing_; }
  // On the learning rate of the next step.
  double next_factor() const {
    return training::step_rate_factor(rate_.schedule, swarm_samples_, batch_size_, rate_.epoch_samples,
                                      steps_ + 1);
  }
  void count_update(double factor) { learning_rate_ = rate_.base * factor; }
  void count_step(double loss) {
    smoothed_loss_ = steps_++ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
  }

  void save_counts(StateWriter& out) const {
    out.value(smoothed_loss_);
    out.value(steps_);
    out.value(learning_rate_.has_value());
    out.value(learning_rate_.value_or(0));
  }
  void load_counts(StateReader& in) {
    smoothed_loss_ = in.value<double>();
    steps_ = in.value<std::uint64_t>();
    const bool has_rate = in.value<bool>();
    const auto rate = in.value<double>();
    if (has_rate) learning_rate_ = rate;
  }

  const std::uint32_t batch_size_;

 private:
  const LearningRate& rate_;
  const bool& rehearsing_;
  std::uint64_t swarm_samples_ = 0;
  std::uint64_t steps_ = 0;
  std::optional<double> learning_rate_;
  double smoothed_loss_ = 0;
};

}  // namespace starling::lab
