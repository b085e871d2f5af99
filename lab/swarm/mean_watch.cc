#include "lab/swarm/mean_watch.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

#include "kernels/backends.h"
#include "lab/swarm/replica_judge.h"
#include "training/records/checkpoint.h"
#include "training/records/files.h"
#include "training/records/record.h"
#include "training/replica/worker.h"

namespace starling::lab {
namespace {

constexpr std::size_t kFirstImages = 1000;
constexpr double kOnePoint = 0.01;

// The mean of the files' replicas and their disagreement; nullopt where one cannot be read, as the mean of
// the others would be another swarm's.
std::optional<double> read_mean(const std::vector<std::string>& paths, const models::Plan& plan,
                                std::vector<float>& mean) {
  std::vector<std::vector<float>> replicas;
  for (const std::string& path : paths) {
    Result<training::Checkpoint> checkpoint = training::read_safetensors(path, plan.layout);
    if (!checkpoint) {
      spdlog::warn("a look at the mean model is left out: {}", checkpoint.error().message);
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
    spdlog::warn("a look at the servers' model is left out: {}", read.error().message);
  }
  return read.ok();
}

}  // namespace

MeanWatch::MeanWatch(const models::Plan& plan, const datasets::Dataset& test, std::optional<double> target)
    : plan_(plan), test_(test), target_(target), thread_([this] { work(); }) {}

MeanWatch::~MeanWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Look& look : waiting_) training::remove_files(look.paths);
}

void MeanWatch::add(Look look) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(look));
  }
  changed_.notify_all();
}

std::vector<MeanWatch::Seen> MeanWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(seen_, {});
}

void MeanWatch::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !busy_; });
}

void MeanWatch::work() {
  const auto backend = kernels::make_backend("cpu");
  STARLING_CHECK(backend.ok());
  training::Evaluator evaluator(plan_, **backend, test_);
  std::vector<float> mean;
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Look look = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    const bool needed = !reached_;
    lock.unlock();

    std::optional<Seen> seen;
    if (needed) {
      std::optional<double> distance;
      if (!look.served) distance = read_mean(look.paths, plan_, mean);
      if (look.served ? read_served(look.paths, plan_, mean) : distance.has_value()) {
        training::Evaluator::Score score = evaluator.evaluate(mean.data(), kFirstImages);
        bool reached = false;
        if (target_ && score.accuracy >= *target_ - kOnePoint) {
          if (test_.size() > kFirstImages) score = evaluator.evaluate(mean.data());
          reached = score.accuracy >= *target_;
        }
        seen = Seen{look.seconds, score.accuracy, score.loss, distance, reached};
      }
    }
    training::remove_files(look.paths);

    lock.lock();
    if (seen) {
      reached_ = reached_ || seen->reached;
      seen_.push_back(*seen);
    }
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
  }
}

}  // namespace starling::lab
