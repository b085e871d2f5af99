// Evaluates a peer's own replica while it trains: on the first test samples, on its own thread, often enough
// that the result is current, and on so few samples that training is hardly slower. Used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "kernels/backend.h"
#include "node/work/background.h"
#include "node/work/replica.h"
#include "training/learning/evaluator.h"

namespace starling::node {

// What evaluations have cost so far, in seconds of processor time.
struct JudgingCost {
  double copy = 0;        // of the parameters
  double per_sample = 0;  // 0: not known
};

// When the next evaluation begins after this one, and on how many samples.
struct JudgingPace {
  // Evaluations may cost this part of the time.
  static constexpr double kShare = 0.02;
  // They begin this often, so that with the evaluation itself no result is older than 5 s or 2 % of the run.
  static constexpr double kLeastSeconds = 2.5, kPartOfRun = 0.01;
  // At least this part of the samples is used; if that costs too much, evaluations are rarer.
  static constexpr std::size_t kFewest = 64;

  double seconds = kLeastSeconds;
  std::size_t samples = 1;
};
// `trained`: seconds since the first evaluation. `most`: samples that are enough.
inline JudgingPace judging_pace(double trained, const JudgingCost& cost, std::size_t most) {
  const std::size_t fewest = std::max<std::size_t>(1, most / JudgingPace::kFewest);
  JudgingPace pace{std::max(JudgingPace::kLeastSeconds, JudgingPace::kPartOfRun * trained), fewest};
  if (cost.per_sample <= 0) return pace;
  const double least = cost.copy + cost.per_sample * static_cast<double>(fewest);
  pace.seconds = std::max(pace.seconds, least / JudgingPace::kShare);
  const double affordable = (pace.seconds * JudgingPace::kShare - cost.copy) / cost.per_sample;
  pace.samples = affordable < static_cast<double>(most)
                     ? std::max(fewest, static_cast<std::size_t>(std::max(affordable, 0.0)))
                     : most;
  return pace;
}

class SelfJudge {
 public:
  explicit SelfJudge(asio::any_io_executor executor) : thread_(std::move(executor)) {}

  // Begins an evaluation if one is due and none is under way. The replica outlives the judge.
  void judge_if_due(Replica& replica, std::uint64_t steps);

  struct Seen {
    std::uint64_t number = 0;  // of the evaluation, from 1
    std::uint64_t steps = 0;   // of the replica
    double accuracy = 0, loss = 0;
  };
  const std::optional<Seen>& latest() const { return latest_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Evaluation {
    std::optional<training::Evaluator::Score> score;  // nullopt: no evaluation was possible
    double seconds = 0;                               // of processor time
  };
  Evaluation judge(const Replica& replica, std::size_t samples);  // on the thread

  std::unique_ptr<kernels::Backend> backend_;  // the CPU's, for every training device
  std::unique_ptr<training::Evaluator> evaluator_;
  std::vector<float> parameters_;
  std::optional<Seen> latest_;
  std::optional<Clock::time_point> first_;  // the begin of the first evaluation
  Clock::time_point due_{};
  JudgingCost cost_;
  bool judging_ = false;
  Background thread_;  // last: it ends first
};

}  // namespace starling::node
