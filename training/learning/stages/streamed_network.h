// A network in stages, each replica of a stage on a thread of its own, that trains without a flush: PipeDream
// (Narayanan et al., SOSP 2019, sections 3.2 and 3.3). Batches follow one another through the stages, and
// each stage updates its parameters after each of its backward passes, or after each few of them. Both passes
// of a batch in a stage use the same parameters, which the stage copies at the forward pass (weight
// stashing). With vertical sync all stages use parameters of the same number of updates.
//
// Replicas of a stage share the batches (PipeDream, section 3.1: batch i goes to replica i mod r), and update
// together with the mean of their gradients.
//
// Parameters are in an arena that others may change meanwhile; a stage copies the newest values. The caller's
// thread computes the first stage, or its first replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "models/arena.h"
#include "training/learning/stages/stage_clock.h"
#include "training/learning/stages/stage_layers.h"
#include "training/learning/stages/stage_links.h"
#include "training/learning/stages/stage_memory.h"
#include "training/learning/stages/stage_threads.h"
#include "training/learning/stages/staged_options.h"
#include "training/learning/stages/stages.h"
#include "training/planner/schedule.h"

namespace starling::training {

class StreamedNetwork {
 public:
  // Adds to the arena the update of what a stage trains. `gradient` is an arena, of which the stage's ranges
  // count: the mean over the batches since its last update. `number` counts its updates since the stream
  // began, from 0. Runs on a thread of the stage.
  struct Update {
    std::size_t stage;
    const float* gradient;
    double rate_factor;  // of the last of these batches
    std::uint64_t number;
  };
  using Apply = std::function<void(const Update&)>;

  // `plan` and `backend` outlive the network. REQUIRES: check_stages() succeeds; the schedule has no flush;
  // the back end computes on the host.
  StreamedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                  const StagedOptions& options);
  ~StreamedNetwork();

  // REQUIRES: before the first feed().
  void set_apply(Apply apply);

  std::size_t stages() const;
  std::size_t parts() const;  // replicas of all stages
  int predictions() const;    // of a batch: one for each sample, or for each token of a text
  const std::vector<FloatRange>& ranges(std::size_t stage) const;

  // Sends a batch into the stages, which copy what they need of it. If more than most_in_flight() are under
  // way, waits until the first stage has updated with the oldest one, and returns that batch's mean loss. The
  // same arena until in_flight() is 0.
  std::optional<double> feed(const models::Arena& arena, const float* inputs, const std::int32_t* labels,
                             double rate_factor);
  // Ends the stream: waits for the oldest batch under way as above, and sends no other one before all have
  // come out. nullopt: none is left.
  std::optional<double> land();
  bool must_land() const;              // the stream ends, so no batch may be fed before all have come out
  std::size_t in_flight() const;       // batches that were fed and have not come out
  std::size_t most_in_flight() const;  // after feed(); without replicas one less than there are stages

  // Continues dropout's draws as after this number of batches. REQUIRES: in_flight() is 0.
  void set_draws(std::uint64_t batches);
  // As of StagedNetwork. REQUIRES: in_flight() is 0.
  void on_each_thread(const std::function<void(std::size_t)>& settle);

  StageMemory memory(std::size_t part) const;
  std::shared_ptr<const StageClock> clock() const { return clock_; }

  // A stream ends after so many batches, rounded down to a number that replicas can share, and the next one
  // begins.
  static constexpr std::uint64_t kLongest = 4096;
  static PipelineShape longest_stream(const StagedOptions& options);

 private:
  struct Batch;
  class Replica;  // of a stage
  struct Group;   // the replicas of a stage

  Replica& first() const { return *replicas_.front(); }  // whose thread is the caller's
  Batch& batch_of(std::uint64_t number);
  void begin_stream(const models::Arena& arena);
  void end_stream();
  void finish_if_over();
  // The first replica's next task, or what it waits for.
  void advance();
  // The samples of a batch are there.
  void announce(std::uint64_t number);
  // Waits until the first stage has updated with the oldest batch under way. Returns its mean loss.
  double complete_oldest();

  const models::Plan& plan_;
  const StagedOptions options_;
  const PipelineShape shape_;  // of the longest stream
  const int samples_;          // of a batch
  Stages stages_;
  const std::shared_ptr<StageClock> clock_;
  StageInboxes inboxes_;
  std::vector<Batch> batches_;  // by number, modulo their count
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // by number
  Apply apply_;
  const models::Arena* arena_ = nullptr;
  std::uint64_t draws_ = 0;             // batches before the stream
  std::uint64_t fed_ = 0, landed_ = 0;  // batches of the stream
  bool runs_ = false, ends_ = false;
  std::optional<StageThreads> threads_;  // last: they use all others
};

}  // namespace starling::training
