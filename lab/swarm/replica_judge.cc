#include "lab/swarm/replica_judge.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "kernels/backends.h"
#include "training/exchange/make.h"
#include "training/records/checkpoint.h"
#include "training/records/record.h"

namespace starling::lab {
namespace {

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
  std::vector<std::thread> threads;
  const std::size_t count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, models.size());
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return scores;
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

}  // namespace starling::lab
