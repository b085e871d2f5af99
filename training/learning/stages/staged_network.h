// A network in stages, each replica of a stage on a thread of its own: it computes the loss and the gradient
// of a batch like models::Network, in micro-batches that pass through the stages by a schedule with a flush
// (schedule.h). Its user does not notice the stages.
//
// The gradient is the mean over the micro-batches, summed in the order of their backward passes, and then
// over the replicas of a stage. Without replicas it equals the whole network's gradient for the same
// micro-batches, bit by bit where operations are not fused across stages. Batch normalization uses the
// statistics of a micro-batch; running statistics change once for the batch, by the statistics of all its
// samples, as in GPipe (Huang et al., 2019, section 2.2) and torchgpipe. Dropout draws by the number of the
// micro-batch, in recomputation the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "training/learning/stages/stage_clock.h"
#include "training/learning/stages/stage_links.h"
#include "training/learning/stages/stage_memory.h"
#include "training/learning/stages/stage_threads.h"
#include "training/learning/stages/staged_options.h"
#include "training/learning/stages/stages.h"
#include "training/planner/schedule.h"

namespace starling::training {

class StagedNetwork {
 public:
  // `plan` and `backend` outlive the network. Throws DeviceError, and so does train(). REQUIRES:
  // check_stages() succeeds; the schedule has a flush; `backend` computes on the host, where parameters and
  // gradients are.
  StagedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                const StagedOptions& options);
  ~StagedNetwork();

  std::size_t parts() const;  // replicas of all stages
  int predictions() const;    // of a batch: one for each sample, or for each token of a text

  // As models::Network::train().
  double train(const float* parameters, const float* inputs, const std::int32_t* labels, float* gradient);
  // Continues dropout's draws as after this number of batches.
  void set_draws(std::uint64_t batches);

  // Calls settle(k) on the thread of each part k, by number (PipelineShape::number_of()). Part 0 uses the
  // caller's thread, which must also call train(). REQUIRES: train() is not running.
  void on_each_thread(const std::function<void(std::size_t)>& settle);

  StageMemory memory(std::size_t part) const;
  std::shared_ptr<const StageClock> clock() const { return clock_; }

 private:
  class Replica;  // of a stage, with its sum of gradients
  struct Batch {
    const float* parameters = nullptr;
    const float* inputs = nullptr;
    const std::int32_t* labels = nullptr;
    float* gradient = nullptr;
  };

  MicroBatch micro_batch(std::uint64_t number) const;  // of the batch under way

  const models::Plan& plan_;
  const StagedOptions options_;
  const PipelineShape shape_;
  const int batch_;  // samples
  Stages stages_;
  const std::shared_ptr<StageClock> clock_;
  StageInboxes inboxes_;
  Batch under_way_;
  std::uint64_t draws_ = 0;              // micro-batches before the batch
  std::vector<Replica> replicas_;        // by number
  std::optional<StageThreads> threads_;  // last: they use all others
};

}  // namespace starling::training
