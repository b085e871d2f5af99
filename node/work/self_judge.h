// Evaluates a peer's own replica from time to time while it trains: on the first test samples, on its own
// thread, and so rarely that training is hardly slower. Used by one thread.
#pragma once

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

class SelfJudge {
 public:
  static constexpr std::size_t kSamples = 1000;
  // Between two evaluations: at least kLeastInterval, and kShare times the duration of one.
  static constexpr std::chrono::seconds kLeastInterval{5};
  static constexpr int kShare = 300;

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
    Clock::duration took{};
  };
  Evaluation judge(const Replica& replica);  // on the thread

  std::unique_ptr<kernels::Backend> backend_;  // the CPU's, for every training device
  std::unique_ptr<training::Evaluator> evaluator_;
  std::vector<float> parameters_;
  std::optional<Seen> latest_;
  Clock::time_point due_{};
  bool judging_ = false;
  Background thread_;  // last: it ends first
};

}  // namespace starling::node
