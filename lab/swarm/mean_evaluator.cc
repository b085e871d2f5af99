#include "lab/swarm/mean_evaluator.h"

#include <spdlog/spdlog.h>
#include <time.h>

#include <cmath>
#include <utility>

#include "kernels/backends.h"
#include "lab/swarm/replica_judge.h"
#include "training/records/checkpoint.h"
#include "training/records/files.h"
#include "training/records/record.h"
#include "training/replica/evaluator.h"

namespace starling::lab {
namespace {

constexpr std::size_t kFirstImages = 1000;
constexpr std::size_t kImagesToMeasure = 32;
constexpr double kOnePoint = 0.01;

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Writes the mean of the files' replicas and returns their disagreement; nullopt if a file cannot be read,
// because the mean of the others would be that of another swarm.
std::optional<double> read_mean(const std::vector<std::string>& paths, const models::Plan& plan,
                                std::vector<float>& mean) {
  std::vector<std::vector<float>> replicas;
  for (const std::string& path : paths) {
    Result<training::Checkpoint> checkpoint = training::read_safetensors(path, plan.layout);
    if (!checkpoint) {
      spdlog::warn("an evaluation of the mean model is left out: {}", checkpoint.error().message);
      return std::nullopt;
    }
    replicas.push_back(std::move(checkpoint->arena));
  }
  if (replicas.empty()) return std::nullopt;
  return training::consensus(training::views_of(replicas), mean);
}

bool read_served(const std::vector<std::string>& paths, const models::Plan& plan, std::vector<float>& model) {
  auto read = read_served_model(paths, plan);
  if (read) {
    model = std::move(*read);
  } else {
    spdlog::warn("an evaluation of the servers' model is left out: {}", read.error().message);
  }
  return read.ok();
}

}  // namespace

// The processor seconds that snapshots and evaluations cost. Peers write what the evaluator reads, and
// writing is counted like reading.
class MeanEvaluator::Budget {
 public:
  explicit Budget(double share) : share_(share) {}

  bool is_limited() const { return std::isfinite(share_); }
  void expect(double evaluation) { evaluation_ = evaluation; }
  bool allows(double run_seconds) const {
    return !is_limited() || spent_ + 2 * files_ + evaluation_ <= share_ * run_seconds;
  }
  void add(double files, double evaluation) {
    files_ = files;
    evaluation_ = evaluation;
    spent_ += 2 * files + evaluation;
  }
  void add_dropped() { spent_ += files_; }

 private:
  double share_;
  double spent_ = 0;
  double files_ = 0, evaluation_ = 0;  // of the latest evaluation
};

MeanEvaluator::MeanEvaluator(const models::Plan& plan, const datasets::Dataset& test, const Options& options)
    : plan_(plan), test_(test), options_(options), thread_([this] { work(); }) {}

MeanEvaluator::~MeanEvaluator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Snapshot& snapshot : waiting_) training::remove_files(snapshot.paths);
}

void MeanEvaluator::add(Snapshot snapshot) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(snapshot));
  }
  changed_.notify_all();
}

std::vector<MeanEvaluator::Evaluation> MeanEvaluator::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void MeanEvaluator::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !busy_; });
}

void MeanEvaluator::work() {
  const auto backend = kernels::make_backend("cpu");
  STARLING_CHECK(backend.ok());
  training::Evaluator evaluator(plan_, **backend, test_);
  std::vector<float> mean(plan_.layout.arena_size());
  Budget budget(options_.processor_share);
  if (budget.is_limited()) {
    evaluator.evaluate(mean.data(), kImagesToMeasure);  // allocates
    const double begin = thread_seconds();
    evaluator.evaluate(mean.data(), kImagesToMeasure);
    budget.expect((thread_seconds() - begin) * kFirstImages / kImagesToMeasure);
  }

  const auto evaluate = [&](const Snapshot& snapshot) -> std::optional<Evaluation> {
    const double begin = thread_seconds();
    std::optional<double> distance;
    if (!snapshot.served) distance = read_mean(snapshot.paths, plan_, mean);
    if (!(snapshot.served ? read_served(snapshot.paths, plan_, mean) : distance.has_value()))
      return std::nullopt;
    const double files = thread_seconds() - begin;
    training::Evaluator::Score score = evaluator.evaluate(mean.data(), kFirstImages);
    bool reached = false;
    if (options_.target && score.accuracy >= *options_.target - kOnePoint) {
      if (test_.size() > kFirstImages) score = evaluator.evaluate(mean.data());
      reached = score.accuracy >= *options_.target;
    }
    budget.add(files, thread_seconds() - begin - files);
    return Evaluation{snapshot.seconds, score.accuracy, score.loss, distance, reached};
  };

  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Snapshot snapshot = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    const bool needed = !reached_ && budget.allows(snapshot.seconds);
    lock.unlock();
    const auto evaluation = needed ? evaluate(snapshot) : std::nullopt;
    if (!needed) budget.add_dropped();
    training::remove_files(snapshot.paths);
    lock.lock();
    if (evaluation) {
      reached_ = reached_ || evaluation->reached;
      done_.push_back(*evaluation);
    }
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
  }
}

}  // namespace starling::lab
