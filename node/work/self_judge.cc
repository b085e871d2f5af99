#include "node/work/self_judge.h"

#include <ctime>

#include "kernels/by_name/backends.h"
#include "node/work/processors.h"

namespace starling::node {
namespace {

// Processor time of the calling thread. Wall time would count what the machine's other programs take.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void SelfJudge::judge_if_due(Replica& replica, std::uint64_t steps) {
  const auto now = Clock::now();
  if (judging_ || steps == 0 || now < due_ || replica.data.test.size() == 0) return;
  if (!first_) first_ = now;
  const std::size_t most = std::min(replica.data.test.size(), training::samples_of_look(replica.data.test));
  const JudgingPace pace = judging_pace(std::chrono::duration<double>(now - *first_).count(), cost_, most);
  due_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pace.seconds));
  judging_ = true;
  const double begin = thread_seconds();
  parameters_.resize(replica.arena.size());
  replica.arena.read(0, parameters_);
  cost_.copy = thread_seconds() - begin;
  thread_.run([this, &replica, samples = pace.samples] { return judge(replica, samples); },
              [this, steps, samples = pace.samples](const Evaluation& done) {
                judging_ = false;
                if (!done.score) return;
                cost_.per_sample = done.seconds / static_cast<double>(samples);
                const std::uint64_t number = latest_ ? latest_->number + 1 : 1;
                latest_ = Seen{number, steps, done.score->accuracy, done.score->loss};
              });
}

SelfJudge::Evaluation SelfJudge::judge(const Replica& replica, std::size_t samples) {
  if (!evaluator_) {
    // At the protocol's priority an evaluation would delay it.
    if (const Status lowered = lower_priority(); !lowered) return {};
    auto backend = kernels::make_backend("cpu");
    if (!backend) return {};
    backend_ = std::move(*backend);
    evaluator_ = std::make_unique<training::Evaluator>(replica.plan, *backend_, replica.data.test);
    evaluator_->evaluate(parameters_.data(), 1);  // touches the network's memory, which is no lasting cost
  }
  const double begin = thread_seconds();
  const auto score = evaluator_->evaluate(parameters_.data(), samples);
  return {score, thread_seconds() - begin};
}

}  // namespace starling::node
