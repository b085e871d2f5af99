// One replica of a stage as a pure machine: what it computes next, with which version of the weights, and to
// whom the result goes. It follows the tasks of its schedule in order, and a task begins when what it reads
// has arrived. Threads with devices and the simulator drive the same machine.
//
// Versions count the updates of a replica. A backward pass has to use the weights of its forward pass
// (weight stashing: PipeDream, section 3.3), so old versions are kept until the last backward pass that needs
// them. With vertical sync every stage uses the version that the first stage used for the micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/planner/schedule.h"

namespace starling::training {

struct StageMessage {
  enum class Kind : std::uint8_t {
    activations,  // of a micro-batch, to the next stage; or its samples (StageOptions::awaits_samples)
    gradient,     // of these, to the stage before
    share,        // of an update, to the other replicas of the stage: the gradient of this one's parameters
    end,          // to every stage: micro-batches from `number` on do not come (StageMachine::end_after())
  } kind = Kind::activations;
  std::uint64_t number = 0;   // of the micro-batch, or of the update
  std::uint64_t version = 0;  // of the first stage's weights; activations only
  std::size_t stage = 0;      // the receiver
  std::uint32_t replica = 0;  // the receiver
  std::uint32_t from = 0;     // the sender's replica
  friend bool operator==(const StageMessage&, const StageMessage&) = default;
};

struct StageWork {
  StageTask task;
  std::uint64_t version = 0;  // of the weights that it reads
  friend bool operator==(const StageWork&, const StageWork&) = default;
};

struct StageOptions {
  bool stash = true;            // false: a backward pass uses the newest weights
  bool vertical_sync = false;   // REQUIRES: stash; as many replicas in each stage
  bool awaits_samples = false;  // of the first stage: a forward pass begins after a message
};

class StageMachine {
 public:
  // REQUIRES: check_shape() succeeds; the stage and the replica exist.
  StageMachine(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
               StageOptions options = {});

  std::size_t number() const { return shape_.number_of(stage_, replica_); }  // of the replica

  // The run ends after `count` micro-batches of the stage instead of all: what began is completed, and an
  // update follows the last ones, even if they are fewer than others have and not all replicas have any.
  // Error, and no change, if later ones have begun or if the run is not longer. REQUIRES: no flush.
  Status end_after(std::uint64_t count);

  // Something for this replica has arrived. Error, and no change, if it is none of its, or came before.
  Status arrived(const StageMessage& message);

  // The work that can begin now; nullopt while some is under way, while its inputs have not arrived, and at
  // the end.
  std::optional<StageWork> ready() const;
  // Begins ready(). REQUIRES: there is one.
  StageWork begin();
  // The work under way is complete. Returns what is to be sent, in order.
  std::vector<StageMessage> finish();
  // What is to be sent because the run has been told its end: the replica's share of an update that is
  // smaller than others. REQUIRES: called after each end_after() and `end` that succeeded.
  std::vector<StageMessage> take_due() { return std::exchange(due_, {}); }

  bool is_over() const { return position_ == tasks_.size(); }
  bool is_busy() const { return under_way_.has_value(); }
  // The task under way or else the next one. REQUIRES: !is_over().
  const StageTask& task() const { return tasks_[position_]; }
  std::size_t position() const { return position_; }

  std::uint64_t version() const { return version_; }  // the newest
  // The replicas of the stage, from 0, that have micro-batches for this update.
  std::uint32_t updating(std::uint64_t update) const;
  // Micro-batches whose activations are kept, and versions of the weights that are, the newest included.
  std::size_t in_flight() const { return used_.size(); }
  std::size_t versions() const;
  std::uint64_t oldest_version() const;  // no pass will need an older one

 private:
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == shape_.stages(); }
  // This replica makes no update with this number or a later one.
  bool is_beyond_end(std::uint64_t update) const;
  // What the task reads has arrived.
  bool is_fed(const StageTask& task) const;
  std::uint64_t version_for(const StageTask& task) const;
  // The version of the first stage's weights for the micro-batch of a forward pass.
  std::uint64_t stamp_of(const StageWork& forward) const;
  StageMessage to(std::size_t stage, StageMessage::Kind kind, std::uint64_t number) const;
  // The other replicas need this one's gradient for the update that is next, if one is.
  void add_shares(std::vector<StageMessage>& out) const;

  PipelineShape shape_;
  std::size_t stage_;
  std::uint32_t replica_;
  StageOptions options_;
  std::vector<StageTask> tasks_;
  std::uint64_t micro_batches_;  // of the stage in all
  std::size_t position_ = 0;
  std::optional<StageWork> under_way_;
  std::uint64_t version_ = 0;
  std::map<std::uint64_t, std::uint64_t> used_;         // the version by micro-batch in flight
  std::map<std::uint64_t, std::uint64_t> activations_;  // arrived: the first stage's version by micro-batch
  std::uint64_t latest_stamp_ = 0;                      // the latest of those versions
  std::set<std::uint64_t> gradients_;                   // arrived
  std::map<std::uint64_t, std::set<std::uint32_t>> shares_;  // arrived: replicas by update
  std::vector<StageMessage> due_;
};

}  // namespace starling::training
