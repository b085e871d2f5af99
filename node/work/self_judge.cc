#include "node/work/self_judge.h"

#include "kernels/by_name/backends.h"
#include "node/work/processors.h"

namespace starling::node {

void SelfJudge::judge_if_due(Replica& replica, std::uint64_t steps) {
  if (judging_ || steps == 0 || Clock::now() < due_ || replica.data.test.size() == 0) return;
  judging_ = true;
  parameters_.resize(replica.arena.size());
  replica.arena.read(0, parameters_);
  thread_.run([this, &replica] { return judge(replica); },
              [this, steps](const Evaluation& done) {
                judging_ = false;
                due_ = Clock::now() + std::max<Clock::duration>(kLeastInterval, done.took * kShare);
                if (!done.score) return;
                const std::uint64_t number = latest_ ? latest_->number + 1 : 1;
                latest_ = Seen{number, steps, done.score->accuracy, done.score->loss};
              });
}

SelfJudge::Evaluation SelfJudge::judge(const Replica& replica) {
  const auto begin = Clock::now();
  if (!evaluator_) {
    // At the workers' priority an evaluation would slow them down.
    if (const Status lowered = lower_priority(); !lowered) return {};
    auto backend = kernels::make_backend("cpu");
    if (!backend) return {};
    backend_ = std::move(*backend);
    evaluator_ = std::make_unique<training::Evaluator>(replica.plan, *backend_, replica.data.test);
  }
  const auto score = evaluator_->evaluate(parameters_.data(), kSamples);
  return {score, Clock::now() - begin};
}

}  // namespace starling::node
