// The learner of an experiment in virtual time: it computes real steps, on the replica as it was at each
// step's beginning, while virtual time advances.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "lab/simulate/state_bytes.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/learner.h"
#include "training/replica/worker.h"

namespace starling::lab {

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
