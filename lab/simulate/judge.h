// Evaluates replicas in memory, several at a time on a thread pool. For replicas in files see
// lab/swarm/replica_judge.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "lab/thread_pool.h"
#include "models/spec.h"
#include "training/records/record.h"
#include "training/replica/worker.h"

namespace starling::lab {

class Judge {
 public:
  // All four outlive the judge.
  Judge(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& test,
        ThreadPool& pool)
      : plan_(plan), backend_(backend), test_(test), pool_(pool) {}

  // The score of one replica on the first `limit` samples.
  training::Evaluator::Score score(const std::vector<float>& parameters, std::size_t limit = SIZE_MAX);
  // The score of each on all samples, in their order.
  std::vector<training::Evaluator::Score> scores(const training::Replicas& replicas);

 private:
  const models::Plan& plan_;
  const kernels::Backend& backend_;
  const datasets::Dataset& test_;
  ThreadPool& pool_;
  std::unique_ptr<training::Evaluator> evaluator_;
};

}  // namespace starling::lab
