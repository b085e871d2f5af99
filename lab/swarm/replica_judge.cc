#include "lab/swarm/replica_judge.h"

#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <utility>

#include "kernels/by_name/backends.h"
#include "training/mixing/make.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/files.h"
#include "training/runs/records/record.h"

namespace starling::lab {
namespace {

constexpr std::size_t kSamplesToMeasure = 32;

std::optional<std::vector<float>> read_replica(const std::string& path, const models::Plan& plan) {
  Result<training::Checkpoint> checkpoint = training::read_safetensors(path, plan.layout);
  if (checkpoint) return std::move(checkpoint->arena);
  spdlog::warn("a replica is not evaluated: {}", checkpoint.error().message);
  return std::nullopt;
}

// The scores of all models (none for a nullptr), each computed by one thread.
std::vector<std::optional<Score>> evaluate_all(const std::vector<const float*>& models,
                                               const models::Plan& plan, const datasets::Dataset& test) {
  std::vector<std::optional<Score>> scores(models.size());
  const auto backend = kernels::make_backend("cpu");
  STARLING_CHECK(backend.ok());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    training::Evaluator evaluator(plan, **backend, test);
    for (std::size_t i; (i = next++) < models.size();) {
      if (models[i] != nullptr) scores[i] = evaluator.evaluate(models[i]);
    }
  };
  std::vector<std::jthread> threads;
  const std::size_t count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, models.size());
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(work);
  threads.clear();  // joins
  return scores;
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Reads the model of a snapshot and returns the disagreement of its replicas; nullopt if servers have it. An
// Error if a file cannot be read: the mean of the others would belong to another swarm.
Result<std::optional<double>> read_snapshot(const MeanEvaluator::Snapshot& snapshot, const models::Plan& plan,
                                            std::vector<float>& model) {
  if (snapshot.served) {
    auto served = read_served_model(snapshot.paths, plan);
    if (!served) return served.error();
    model = std::move(*served);
    return std::optional<double>{};
  }
  std::vector<std::vector<float>> replicas;
  for (const std::string& path : snapshot.paths) {
    Result<training::Checkpoint> checkpoint = training::read_safetensors(path, plan.layout);
    if (!checkpoint) return checkpoint.error();
    replicas.push_back(std::move(checkpoint->arena));
  }
  return std::optional(training::consensus(training::views_of(replicas), model));
}

}  // namespace

Result<std::vector<float>> read_served_model(const std::vector<std::string>& paths,
                                             const models::Plan& plan) {
  std::vector<float> model(plan.layout.arena_size());
  for (std::size_t k = 0; k < paths.size(); ++k) {
    const auto checkpoint = training::read_safetensors(paths[k], plan.layout);
    if (!checkpoint) return checkpoint.error();
    const auto [offset, floats] = training::served_by(k, paths.size(), model.size());
    std::copy_n(checkpoint->arena.begin() + static_cast<std::ptrdiff_t>(offset), floats,
                model.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  return model;
}

Judgement judge_replicas(const std::vector<ReplicaFile>& files, const std::vector<std::string>& servers,
                         const models::Plan& plan, const datasets::Dataset& test) {
  Judgement judgement;
  std::vector<std::optional<std::vector<float>>> replicas;
  training::Replicas counting;
  std::vector<const float*> models;
  replicas.reserve(files.size());  // `counting` refers to them
  for (const ReplicaFile& file : files) {
    const auto& replica =
        replicas.emplace_back(file.path.empty() ? std::nullopt : read_replica(file.path, plan));
    models.push_back(replica ? replica->data() : nullptr);
    if (replica && file.counts) counting.push_back(*replica);
  }
  if (!counting.empty()) judgement.consensus_distance = training::consensus(counting, judgement.mean);

  if (!servers.empty()) {
    auto model = read_served_model(servers, plan);
    if (model) {
      judgement.mean = std::move(*model);
    } else {
      spdlog::warn("the mean of the peers is evaluated, because a server's part is missing: {}",
                   model.error().message);
    }
  }

  models.push_back(judgement.mean.empty() ? nullptr : judgement.mean.data());
  judgement.replicas = evaluate_all(models, plan, test);
  judgement.mean_score = judgement.replicas.back();
  judgement.replicas.pop_back();
  return judgement;
}

std::optional<double> consume_consensus(const std::vector<std::string>& paths, const models::Plan& plan) {
  std::vector<std::vector<float>> replicas;
  for (const std::string& path : paths) {
    if (std::optional<std::vector<float>> replica = read_replica(path, plan))
      replicas.push_back(std::move(*replica));
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  if (replicas.empty()) return std::nullopt;
  std::vector<float> mean;
  return training::consensus(training::views_of(replicas), mean);
}

// ---- while the run lasts ----

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
  const std::size_t first = training::samples_of_look(test_);
  Budget budget(options_.processor_share);
  if (budget.is_limited()) {
    evaluator.evaluate(mean.data(), kSamplesToMeasure);  // allocates
    const double begin = thread_seconds();
    evaluator.evaluate(mean.data(), kSamplesToMeasure);
    budget.expect((thread_seconds() - begin) * static_cast<double>(first) / kSamplesToMeasure);
  }

  const auto evaluate = [&](const Snapshot& snapshot) -> std::optional<Evaluation> {
    const double begin = thread_seconds();
    const auto distance = read_snapshot(snapshot, plan_, mean);
    if (!distance) {
      spdlog::warn("an evaluation of the {} model is left out: {}", snapshot.served ? "servers'" : "mean",
                   distance.error().message);
      return std::nullopt;
    }
    const double files = thread_seconds() - begin;
    training::Evaluator::Score score = evaluator.evaluate(mean.data(), first);
    bool reached = false;
    if (training::is_near_target(options_.target, score.accuracy, score.loss)) {
      if (test_.size() > first) score = evaluator.evaluate(mean.data());
      reached = training::reaches_target(options_.target, score.accuracy, score.loss);
    }
    budget.add(files, thread_seconds() - begin - files);
    return Evaluation{snapshot.seconds, score.accuracy, score.loss, *distance, reached};
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
