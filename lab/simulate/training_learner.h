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
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/learner.h"
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
                  StepsAhead& ahead, const bool& rehearsing);
  ~TrainingLearner() override { drop_all(); }

  void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) override;
  void arena_will_change() override;
  void swarm_has_consumed(std::uint64_t samples) override { swarm_samples_ = samples; }
  std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) override;
  void discard_step(std::uint32_t worker) override;
  void renew() override;
  void over() override;

  double loss() const override { return smoothed_loss_; }
  std::optional<double> learning_rate() const override { return learning_rate_; }

  // The state between two happenings, with steps under way. load() puts it into a learner that has rehearsed
  // the same steps; an Error if the state is not of such a learner.
  void save(StateWriter& out, const models::Arena& arena);
  Status load(StateReader& in, const models::Arena& arena);

 private:
  struct Place {
    std::unique_ptr<training::Worker> worker;
    StepsAhead::Step step{};
    bool stepping = false;
    Instant ends{};
  };
  void drop_all();

  const LearningRate& rate_;
  StepsAhead& ahead_;
  const bool& rehearsing_;
  std::vector<Place> places_;
  std::uint32_t batch_size_ = 0;
  std::uint64_t swarm_samples_ = 0;
  std::optional<double> learning_rate_;
  double smoothed_loss_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace starling::lab
